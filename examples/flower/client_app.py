"""A client: client.py beside this file has its model and its data."""

from fedpace.deploy.flower import client_app

app = client_app(__file__)
