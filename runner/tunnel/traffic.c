/* Packets between the device of the sandbox and the connections to other nodes. */
#include <errno.h>
#include <unistd.h>

#include "base/clock.h"
#include "runner/sandbox/nodes.h"
#include "runner/tunnel/tunnel_priv.h"

#define TURN_PACKETS 64 /* so that the device keeps no connection waiting */

_Static_assert(NODES_MTU == TUNNEL_PACKET_MAX, "a packet of the device fits into a frame");
_Static_assert(NODES_MAX == TUNNEL_NODES_MAX, "there is a branch for each node");

static struct branch *branch_to(struct tunnel *tunnel, int64_t node)
{
    for (size_t i = 0; i < tunnel->count; i++)
        if (tunnel->branches[i].other->node == node) return &tunnel->branches[i];
    return NULL;
}

static bool send_on(struct tunnel *tunnel, struct bytes bytes)
{
    struct tunnel_packet packet;

    if (!tunnel_packet_read(bytes, &packet) || packet.from != nodes_address(tunnel->options.node)) return false;
    struct branch *branch = branch_to(tunnel, nodes_find(packet.to, tunnel->options.nodes));
    return branch != NULL && branch->state == BRANCH_OPEN && wire_put(branch->wire, TUNNEL_PACKET, bytes, tunnel->queue_most);
}

static void count(struct tunnel *tunnel, bool has_passed, size_t length)
{
    tunnel->counted.packets += has_passed ? 1 : 0;
    tunnel->counted.bytes += has_passed ? length : 0;
    tunnel->counted.dropped += has_passed ? 0 : 1;
}

void traffic_from_device(struct tunnel *tunnel)
{
    uint8_t packet[NODES_MTU];

    for (unsigned i = 0; i < TURN_PACKETS; i++) {
        const ssize_t length = read(tunnel->options.device, packet, sizeof packet);
        if (length <= 0) return;
        tunnel->heard_ms = clock_monotonic_ms();
        count(tunnel, send_on(tunnel, (struct bytes){packet, (size_t)length}), (size_t)length);
    }
}

void traffic_to_device(struct tunnel *tunnel, const struct branch *branch, struct bytes bytes)
{
    struct tunnel_packet packet;
    const bool may_pass = tunnel_packet_read(bytes, &packet) && packet.from == nodes_address(branch->other->node) &&
                          packet.to == nodes_address(tunnel->options.node);

    count(tunnel, may_pass && write(tunnel->options.device, bytes.data, bytes.length) == (ssize_t)bytes.length, bytes.length);
}
