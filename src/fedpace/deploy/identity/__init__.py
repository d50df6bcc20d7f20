"""Who is who: a small certificate authority, requests, bundles, revocation, and TLS contexts made of them."""
