"""A TCP forwarder that can be cut: `cut_proxy.py LISTEN_HOST PORT TARGET_HOST`, the same port on both sides.

SIGUSR1 resets what is connected and from then on lets connections in without an answer; SIGUSR2 forwards again. Says "ready" first.
"""
import selectors
import signal
import socket
import struct
import sys

LINGER = struct.pack("ii", 1, 0)  # closing resets


def main():
    host, port, target = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    listener = socket.create_server((host, port))
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    wake, waker = socket.socketpair()
    for end in (wake, waker):
        end.setblocking(False)
    signal.set_wakeup_fd(waker.fileno())
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda *_: None)
    selector.register(wake, selectors.EVENT_READ)
    other = {}  # socket -> the one on the other side, None while held
    cut = False

    def reset(end):
        if end not in other:
            return  # with its other side
        for one in (end, other.pop(end)):
            if one is not None:
                other.pop(one, None)
                if one in selector.get_map():
                    selector.unregister(one)
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER)
                one.close()

    print("ready", flush=True)
    while True:
        for key, _ in selector.select():
            if key.fileobj is wake:
                cut = signal.SIGUSR1 in wake.recv(100)
                for end in list(other):
                    reset(end)
            elif key.fileobj is listener:
                node, _ = listener.accept()
                if cut:
                    other[node] = None
                    continue
                try:
                    far = socket.create_connection((target, port), 3)
                except OSError:
                    other[node] = None
                    reset(node)
                    continue
                other[node], other[far] = far, node
                selector.register(node, selectors.EVENT_READ)
                selector.register(far, selectors.EVENT_READ)
            elif key.fileobj in other:
                try:
                    data = key.fileobj.recv(1 << 16)
                    if data:
                        other[key.fileobj].sendall(data)
                        continue
                except OSError:
                    pass
                reset(key.fileobj)


if __name__ == "__main__":
    main()
