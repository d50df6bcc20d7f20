"""The server, configured by run.toml and client.py in this folder."""

from fedpace.deploy.flower import server_app

app = server_app(__file__)
