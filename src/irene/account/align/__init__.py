"""Events × power: each joule once.

- `nesting`: which event is inside which, and the time that is an event's own.
- `power`: `PowerSeries`, the power of one device over time.
- `sharpening`: a series cut where what runs changes.
- `sampled_together`: what of a row may be another's, as both were sampled together.
- `alignment`: exact energy of every event from one series.
- `attribution`: events × all series, and the check that nothing is lost.
"""
