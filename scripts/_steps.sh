# Sourced: run named steps to the end, even past a failure, and sum them up plainly.

results=()
failed=0

step() { # step NAME COMMAND...
    local name=$1 began=$SECONDS verdict=ok
    shift
    echo "== $name"
    "$@" || { verdict=FAILED; failed=1; }
    results+=("$(printf '%-8s %-8s %4d s' "$name" "$verdict" $((SECONDS - began)))")
}

static_steps() {
    step lint .venv/bin/ruff check .
    step format .venv/bin/ruff format --check .
    step types .venv/bin/mypy
}

summary() {
    printf '\n'
    printf '%s\n' "${results[@]}"
    return $failed
}
