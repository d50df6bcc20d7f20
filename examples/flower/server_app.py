"""The server: run.toml and client.py beside this file say what it runs."""

from fedpace.deploy.flower import server_app

app = server_app(__file__)
