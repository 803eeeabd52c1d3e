"""Every distinct node of a model, run alone under the meters."""
