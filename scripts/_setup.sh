# Sourced by the other scripts: makes .venv with the pinned versions, once, and again only when they change.

cd "$(dirname "${BASH_SOURCE[0]}")/.."
stamp=.venv/.installed-for
wanted="$PWD $(cat pyproject.toml constraints.txt | cksum)"

find_python() {
    local name
    for name in "${PYTHON:-}" python3.11 python3 python3.12 python3.13 python3.14 python; do
        if [ -n "$name" ] && "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$name"
            return
        fi
    done
    echo "Python 3.11 or later must be on PATH (or named by \$PYTHON); found none" >&2
    return 1
}

make_venv() {
    local python
    python=$(find_python)
    # Some systems ship venv without ensurepip; the pip that is there can fill the gap.
    "$python" -m venv --clear .venv 2>/dev/null ||
        { "$python" -m venv --clear --without-pip .venv && "$python" -m pip --python .venv/bin/python install -q pip; }
}

if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
    echo "Setting up .venv: a few minutes the first time, about a second afterwards."
    .venv/bin/python -m pip --version >/dev/null 2>&1 || make_venv
    .venv/bin/python -m pip install -q --disable-pip-version-check -c constraints.txt "$(grep '^torch==' constraints.txt)"
    .venv/bin/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
    echo "$wanted" >"$stamp"
fi
