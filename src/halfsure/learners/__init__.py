"""What can stand behind the default: which method for which data, and classic classifiers beside it."""
