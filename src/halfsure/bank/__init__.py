"""The bank: pictures and texts through an encoder, once, in plain, weak and strong views; kept on the disk."""
