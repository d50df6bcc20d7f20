"""fedpace as a Flower app: the same machines, over Flower's public Grid.

server_app(__file__)    the ServerApp of the study beside this file
client_app(__file__)    its ClientApp
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flwr.app import Context, Message
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp

__all__ = ["client_app", "server_app"]


def server_app(file: str) -> ServerApp:
    """The app whose run.toml and client.py lie beside `file`."""
    from flwr.serverapp import ServerApp

    app = ServerApp()

    def main(grid: Grid, context: Context) -> None:
        from fedpace.deploy.flower.grid import GridPost
        from fedpace.deploy.flower.server import serve_on_grid

        serve_on_grid(Path(file).parent, GridPost(grid), context.run_config, str(context.run_id))

    app.main()(main)
    return app


def client_app(file: str) -> ClientApp:
    """The app whose client.py lies beside `file`. Nothing else is imported before a message comes."""
    from flwr.clientapp import ClientApp

    app = ClientApp()

    def train(message: Message, context: Context) -> Message:
        from flwr.app import Message as FlowerMessage

        from fedpace.deploy.flower.client import answer
        from fedpace.deploy.flower.grid import of_answer, to_letter

        program = Path(file).with_name("client.py")
        found = answer(to_letter(message.content), program, context.node_config, context.run_config)
        return FlowerMessage(of_answer(found), reply_to=message)

    app.train()(train)
    return app
