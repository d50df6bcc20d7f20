"""A client, with model and data from client.py in this folder."""

from fedpace.deploy.flower import client_app

app = client_app(__file__)
