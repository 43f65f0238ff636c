"""The domains of procedural ZEST, one module each; `how to write one` is in docs/zest.md."""
