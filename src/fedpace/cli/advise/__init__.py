"""What `fedpace advise` computes and shows; the verb itself is `verbs/advise.py`."""
