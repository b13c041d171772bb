"""How good a model is, by labels that were held out."""
