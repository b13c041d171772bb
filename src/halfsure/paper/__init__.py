"""The paper, table by table: each experiment is a small declaration, and one runner serves them all.

| module | what is in it |
|---|---|
| `table1` … `table4` | the paper's tables, with its numbers |
| `safety` | the runs behind Figure 5 |
| `svhn` | Tables II and IV on SVHN again, with a network that learns it in few steps |
| `robustness`, `parts` | not in the paper: Table I over VAT's own settings, and what FixMatch-ADS's lead is made of |
| `controls` | logistic regression and 1-NN on the same labels |
| `tuning` | how settings were chosen: search spaces, trials on validation samples, winners |
| `experiments` | all of them by name |
| `cells`, `table` | what these are declared with: one run, and rows of methods on columns of data |
| `grid`, `results` | cells → finished runs, as lines of JSON |
| `show`, `figures` | lines → tables and figures |
"""
