"""What the steps of the norms take in profiles of llama.py's model: norms.py PROFILE.json …"""
import json
import pathlib
import sys


def main():
    for path in sys.argv[1:]:
        profile = json.loads(pathlib.Path(path).read_text())["after"]
        norms = [s for s in profile["steps"] if s["scopes"] and all("norm" in scope[-1] for scope in s["scopes"])]
        took = sum(s["us"]["median"] for s in norms)
        print(f"{path}: {len(norms)} steps of norms take {took:.1f} µs of a run's {profile['latency_us']['median']:.0f}")


if __name__ == "__main__":
    main()
