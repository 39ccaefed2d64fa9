/* Who connects to this node: others, until they have proven which node they are. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "runner/talk/talk_sockets.h"
#include "runner/tunnel/tunnel_priv.h"

#define MEET_MS 10000 /* for keys and leases */

void guest_close(struct guest *guest)
{
    wire_free(guest->wire);
    guest->wire = NULL;
}

/* A free place, or that of the guest that came first: whoever only holds places must not keep the nodes out. */
static struct guest *place_for_guest(struct tunnel *tunnel)
{
    struct guest *oldest = tunnel->guests;

    for (size_t i = 0; i < GUESTS_MAX; i++) {
        if (tunnel->guests[i].wire == NULL) return &tunnel->guests[i];
        if (tunnel->guests[i].until_ms < oldest->until_ms) oldest = &tunnel->guests[i];
    }
    tunnel->counted.strangers++;
    guest_close(oldest);
    return oldest;
}

void guests_accept(struct tunnel *tunnel)
{
    struct error ignored;

    for (unsigned i = 0; i < GUESTS_MAX; i++) {
        const int fd = accept4(tunnel->options.door, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) return;
        talk_watch_peer(fd);
        struct guest *guest = place_for_guest(tunnel);
        guest->until_ms = clock_monotonic_ms() + MEET_MS;
        if (!wire_new(tunnel->self, fd, false, &guest->wire, &ignored).ok) return;
    }
}

/* Only nodes with larger numbers call this one. Which node it is, its lease says; that it may say so, its key. */
static struct branch *find_branch(struct tunnel *tunnel, const struct wire *wire, struct bytes hello)
{
    uint8_t wanted[TUNNEL_HELLO_SIZE];

    for (size_t i = 0; i < tunnel->count; i++) {
        const struct tunnel_node *other = tunnel->branches[i].other;
        tunnel_hello_write(other->lease, tunnel->options.lease, wanted);
        if (other->node > tunnel->options.node && strcmp(wire_key(wire), other->key) == 0 &&
            bytes_equal(hello, (struct bytes){wanted, sizeof wanted}))
            return &tunnel->branches[i];
    }
    return NULL;
}

static void refuse(struct tunnel *tunnel, struct guest *guest)
{
    tunnel->counted.strangers++;
    guest_close(guest);
}

void guest_go_on(struct tunnel *tunnel, struct guest *guest)
{
    uint8_t hello[TUNNEL_HELLO_SIZE];
    struct tunnel_frame frame;
    bool is_valid = true;

    if (!wire_go_on(guest->wire)) {
        refuse(tunnel, guest);
        return;
    }
    if (!wire_is_shaken(guest->wire)) return;
    if (!wire_next(guest->wire, &frame, &is_valid)) {
        if (!is_valid) refuse(tunnel, guest);
        return;
    }
    struct branch *branch = frame.kind == TUNNEL_HELLO ? find_branch(tunnel, guest->wire, frame.content) : NULL;
    if (branch == NULL) {
        refuse(tunnel, guest);
        return;
    }
    tunnel_hello_write(tunnel->options.lease, branch->other->lease, hello);
    (void)wire_put(guest->wire, TUNNEL_HELLO, (struct bytes){hello, sizeof hello}, sizeof hello + TUNNEL_HEAD_SIZE);
    branch_join(tunnel, branch, guest->wire);
    guest->wire = NULL;
}
