#!/usr/bin/env bash
# certificates.sh FOLDER HOST: an authority of the study's own, and a certificate for its server.
set -euo pipefail
folder=$1 host=$2
mkdir -p "$folder"
cd "$folder"
umask 077
curve=(-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes)
openssl req -x509 "${curve[@]}" -keyout ca.key -out ca.crt -days 3650 -subj "/CN=authority of $host" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign 2>/dev/null
openssl req "${curve[@]}" -keyout server.key -out server.csr -subj "/CN=$host" 2>/dev/null
openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 365 -out server.crt 2>/dev/null \
    -extfile <(printf 'subjectAltName=DNS:%s,DNS:localhost,IP:127.0.0.1\n' "$host")
rm server.csr
head -c 32 /dev/urandom >superexec.secret
