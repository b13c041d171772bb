"""Settings: declared by parts, composed, checked and read here."""
