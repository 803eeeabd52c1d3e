"""Events × power: nesting, alignment, attribution, each joule once."""
