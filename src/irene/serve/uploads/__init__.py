"""Files from strangers: read in a bounded way, checked, never run.

- `bounded_json`: JSON text, packed or not, that cannot blow up.
- `documents`: which kind of document it is, and whether it holds together.
- `storage`: uploads in the database, by their content; `endpoints`: those of the API.
"""
