"""The paper, table by table: each experiment is a small declaration, and one runner serves them all.

| module | what is in it |
|---|---|
| `cells` | one run of a table: data, labels, method, seed, and the settings of its protocol |
| `tables` | Tables I to IV, the controls beside them, the robustness grid |
| `tuning` | how settings were chosen: search spaces, trials on validation samples, winners |
| `grid` | runs cells side by side, stops and goes on, keeps results |
| `results` | finished runs as lines of JSON, and what is read from them |
"""
