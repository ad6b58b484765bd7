#!/usr/bin/env bash
# Runs a Ceph cluster of one host on the loopback interface, for tests: a monitor, OSDs in memory, and a gateway with the interface of S3.
# Without manager and replicas. A start takes about ten seconds.
# usage: ceph.sh start DIR   starts it and prints, as NAME=VALUE lines, what clients need:
#                            CEPH_CONF, of the pool `rbd` and the pool `rbd-other`;
#                            AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, of one user with a bucket, `images`.
#                            Without Ceph it prints what is missing on standard error, and exits with 77.
#        ceph.sh stop DIR    ends it, and leaves DIR with its logs
#   CEPH_PARTS: `rbd` leaves out the gateway
#   CEPH_OSDS: how many OSDs; 1
#   CEPH_WATCH_SECONDS: how long a client may be silent before its watches are removed, on which others take its images over; 12
set -euo pipefail
action=${1:?start or stop}
mkdir -p "${2:?a directory}"
dir=$(cd "$2" && pwd)
PATH=$PATH:/usr/sbin:/sbin
export CEPH_CONF=$dir/ceph.conf
access_key=uext4testaccesskey00 secret_key=uext4testsecretkey000000000000000000000

stop() {
  local pid_file pid
  for pid_file in "$dir"/*.pid; do
    pid=$(cat "$pid_file" 2>/dev/null) || continue
    kill -KILL "$pid" 2>/dev/null || true
    # Init may take seconds to reap it.
    while grep -qs '^State:[^Z]*$' "/proc/$pid/status"; do sleep 0.05; done
    rm -f "$pid_file"
  done
}
if [ "$action" = stop ]; then stop; exit; fi
[ "$action" = start ] || { echo "ceph.sh: start or stop, not $action" >&2; exit 2; }

osds=${CEPH_OSDS:-1} watch_seconds=${CEPH_WATCH_SECONDS:-12}
gateway=1; [ "${CEPH_PARTS-}" != rbd ] || gateway=
programs=(ceph ceph-authtool ceph-mon ceph-osd monmaptool rbd)
[ -z "$gateway" ] || programs+=(radosgw radosgw-admin)
for program in "${programs[@]}"; do
  command -v "$program" >/dev/null || { echo "skipped: needs $program (Debian: ceph-mon ceph-osd ceph-common radosgw)" >&2; exit 77; }
done

# Runs a command, and shows what it printed if it fails.
quietly() {
  "$@" >"$dir/out" 2>&1 || { echo "ceph.sh: $*:" >&2; cat "$dir/out" >&2; return 1; }
}
# Starts a daemon, which writes its process id.
daemon() {
  local name=$1; shift
  quietly "$@" --pid-file "$dir/$name.pid" </dev/null
}
# Makes a bucket: a request with a signature of AWS, version 4.
make_bucket() {
  python3 - "$1" "127.0.0.1:$s3_port" "$access_key" "$secret_key" <<'PYTHON'
import datetime, hashlib, hmac, sys, urllib.request
bucket, host, access_key, secret_key = sys.argv[1:]
now = datetime.datetime.now(datetime.timezone.utc)
stamp, day, body = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d"), hashlib.sha256(b"").hexdigest()
names, scope = "host;x-amz-content-sha256;x-amz-date", f"{day}/us-east-1/s3/aws4_request"
request = f"PUT\n/{bucket}\n\nhost:{host}\nx-amz-content-sha256:{body}\nx-amz-date:{stamp}\n\n{names}\n{body}"
text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
key = ("AWS4" + secret_key).encode()
for part in [day, "us-east-1", "s3", "aws4_request", text]:
    key = hmac.new(key, part.encode(), hashlib.sha256).digest()
authorization = f"AWS4-HMAC-SHA256 Credential={access_key}/{scope}, SignedHeaders={names}, Signature={key.hex()}"
headers = {"x-amz-date": stamp, "x-amz-content-sha256": body, "Authorization": authorization}
urllib.request.urlopen(urllib.request.Request(f"http://{host}/{bucket}", method="PUT", headers=headers), timeout=20)
PYTHON
}
trap 'status=$?; if [ $status != 0 ]; then stop; fi; exit $status' EXIT

read -r mon_port s3_port < <(python3 -c '
import socket
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(s.getsockname()[1] for s in sockets))')
fsid=$(cat /proc/sys/kernel/random/uuid)
cat >"$CEPH_CONF" <<END
[global]
fsid = $fsid
mon host = [v2:127.0.0.1:$mon_port]
keyring = $dir/keyring
auth allow insecure global id reclaim = false
public addr = 127.0.0.1
cluster addr = 127.0.0.1
ms bind ipv6 = false
ms bind msgr1 = false
run dir = $dir
log file = $dir/\$name.log
admin socket = $dir/\$name.\$pid.asok
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
osd pool default pgp num = 8
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true
mon allow pool delete = true
mon max pg per osd = 1000
[mon]
mon data = $dir/mon
mon data avail crit = 1
# Changes of the map of OSDs, a blocklist too, reach clients at once.
paxos propose interval = 0.05
paxos min wait = 0.01
mon osd min in ratio = 0
mon pg warn on pool no redundancy = false
[osd]
# 30 seconds by default, for which tests would wait.
osd client watch timeout = $watch_seconds
osd data = $dir/\$name
osd objectstore = memstore
memstore device bytes = $((8589934592 / osds))
osd scrub load threshold = 0
[client]
# How often clients report; 5 seconds by default.
objecter tick interval = $(awk "BEGIN { t = $watch_seconds / 3; print t < 5 ? t : 5 }")
admin socket =
log file =
[client.rgw]
log file = $dir/radosgw.log
rgw data = $dir/radosgw
rgw frontends = beast endpoint=127.0.0.1:$s3_port
rgw enable usage log = false
rgw run sync thread = false
rgw gc processor period = 3600
END

rm -rf "$dir/mon" "$dir"/osd.* "$dir/radosgw"; mkdir "$dir/mon" "$dir/radosgw"
rm -f "$dir/keyring"
mapfile -t osd_names < <(seq -f 'osd.%g' 0 $((osds - 1)))
for name in mon. client.admin client.rgw "${osd_names[@]}"; do
  quietly ceph-authtool --create-keyring "$dir/key" --gen-key -n "$name" --cap mon 'allow *' --cap osd 'allow *' --cap mgr 'allow *'
  cat "$dir/key" >>"$dir/keyring"; rm "$dir/key"
done
quietly monmaptool --create --clobber --fsid "$fsid" --addv a "[v2:127.0.0.1:$mon_port]" "$dir/monmap"
quietly ceph-mon -i a --mkfs --monmap "$dir/monmap" --keyring "$dir/keyring"
daemon mon ceph-mon -i a
for name in "${osd_names[@]}"; do
  osd_uuid=$(cat /proc/sys/kernel/random/uuid) id=${name#osd.}
  mkdir "$dir/$name"
  quietly ceph --connect-timeout 20 osd new "$osd_uuid" "$id"
  quietly ceph-osd -i "$id" --mkfs --osd-uuid "$osd_uuid"
  daemon "$name" ceph-osd -i "$id"
done
for pool in rbd rbd-other; do
  quietly ceph osd pool create "$pool" 8
  quietly ceph osd pool application enable "$pool" rbd
done
echo "CEPH_CONF=$CEPH_CONF"
[ -n "$gateway" ] || exit 0
quietly radosgw-admin -n client.rgw user create --uid=test --display-name=test --access-key="$access_key" --secret-key="$secret_key"
daemon radosgw radosgw -n client.rgw
for _ in $(seq 400); do
  if (exec 3<>"/dev/tcp/127.0.0.1/$s3_port") 2>/dev/null; then
    quietly make_bucket images
    echo "AWS_ENDPOINT_URL=http://127.0.0.1:$s3_port"
    echo "AWS_REGION=us-east-1"
    echo "AWS_ACCESS_KEY_ID=$access_key"
    echo "AWS_SECRET_ACCESS_KEY=$secret_key"
    exit 0
  fi
  sleep 0.05
done
echo "ceph.sh: the gateway does not begin; $dir/radosgw.log has why" >&2
exit 1
