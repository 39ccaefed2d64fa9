/* Tunnels between nodes, with sockets in the place of devices: what passes, what does not, who is refused, and what becomes of a lost connection. */
#include "tests/support/unit.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "runner/sandbox/nodes.h"
#include "runner/talk/talk_sockets.h"
#include "runner/tunnel/tunnel.h"
#include "runner/tunnel/wire.h"
#include "tests/support/packets.h"
#include "tests/support/tunnel_group.h"

#define NEVER 300 /* ms: nothing comes */

/* ---- packets ---- */

static void send_as(const struct group *group, size_t at, uint32_t from, uint32_t to, const char *text)
{
    uint8_t packet[256];
    const size_t length = make_packet(packet, from, to, text);

    assert_int_equal(write(group->nodes[at].device, packet, length), (ssize_t)length);
}

static void assert_came(const struct group *group, size_t at, const char *text)
{
    struct pollfd polled = {.fd = group->nodes[at].device, .events = POLLIN};
    uint8_t packet[256];

    assert_int_equal(poll(&polled, 1, SOON_MS), 1);
    const ssize_t length = read(group->nodes[at].device, packet, sizeof packet);
    assert_int_equal(length, IP_HEAD + (ssize_t)strlen(text));
    assert_memory_equal(packet + IP_HEAD, text, strlen(text));
}

static void assert_nothing_comes(const struct group *group)
{
    struct pollfd polled[MOST];

    for (size_t i = 0; i < group->count; i++) polled[i] = (struct pollfd){.fd = group->nodes[i].device, .events = POLLIN};
    assert_int_equal(poll(polled, group->count, NEVER), 0);
}

/* The counts are shared with the next turn of the thread. */
static void await_count(const struct group *group, size_t at, size_t offset, uint64_t least)
{
    uint64_t counted = 0;

    for (int i = 0; i < 200 && counted < least; i++) {
        const struct tunnel_counts counts = tunnel_counts(group->nodes[at].tunnel);
        memcpy(&counted, (const uint8_t *)&counts + offset, sizeof counted);
        if (counted < least) (void)usleep(50000);
    }
    assert_true(counted >= least);
}

static void packets_go_to_their_node(void **state)
{
    GROUP group = {.count = 0};

    (void)state;
    make_group(&group, 3);
    join(&group);
    for (size_t i = 0; i < 9; i++) {
        const size_t from = i / 3, to = i % 3;
        if (from == to) continue;
        send_as(&group, from, nodes_address((int64_t)from), nodes_address((int64_t)to), "to another");
        assert_came(&group, to, "to another");
    }
    assert_nothing_comes(&group);
    await_count(&group, 0, offsetof(struct tunnel_counts, packets), 4);
    assert_int_equal(tunnel_counts(group.nodes[0].tunnel).dropped, 0);
}

static void what_is_not_between_two_nodes_is_dropped(void **state)
{
    static const uint8_t no_packet[40] = {0x60};
    GROUP group = {.count = 0};

    (void)state;
    make_group(&group, 3);
    join(&group);
    send_as(&group, 0, nodes_address(2), nodes_address(1), "as another node");
    send_as(&group, 0, UINT32_C(0x7f000001), nodes_address(1), "from this machine");
    send_as(&group, 0, nodes_address(0), nodes_address(0), "to itself");
    send_as(&group, 0, nodes_address(0), nodes_address(3), "to a node that is not there");
    send_as(&group, 0, nodes_address(0), UINT32_C(0xa9fea9fe), "to the metadata of a cloud");
    send_as(&group, 0, nodes_address(0), UINT32_C(0xffffffff), "to all");
    assert_int_equal(write(group.nodes[0].device, no_packet, sizeof no_packet), (ssize_t)sizeof no_packet);
    await_count(&group, 0, offsetof(struct tunnel_counts, dropped), 7);
    assert_nothing_comes(&group);
    send_as(&group, 0, nodes_address(0), nodes_address(1), "as it should be");
    assert_came(&group, 1, "as it should be");
}

/* ---- others who connect ---- */

static bool knows_all(const void *context, const char thumbprint[ECDSA_THUMBPRINT_SIZE])
{
    (void)context, (void)thumbprint;
    return true;
}

/* A peer that is made by hand: it may say what it likes. */
struct stranger {
    struct tls_self *self;
    struct wire *wire;
};

static void stranger_done(struct stranger *stranger)
{
    wire_free(stranger->wire);
    tls_self_free(stranger->self);
}
#define STRANGER __attribute__((cleanup(stranger_done))) struct stranger

/* False: the other side has ended it. */
static bool pass_time(struct wire *wire, int64_t until_ms)
{
    while (clock_monotonic_ms() < until_ms) {
        struct pollfd polled = {.fd = wire_descriptor(wire), .events = wire_events(wire)};
        (void)poll(&polled, 1, 20);
        if (!wire_go_on(wire)) return false;
    }
    return true;
}

static void call_as(struct stranger *stranger, const struct ecdsa_key *key, const struct node *node)
{
    const struct tls_self_options options = {.key = key, .is_known = knows_all};
    struct error err = {0};
    int fd = -1;

    must(tls_self_new(&options, &stranger->self, &err), &err);
    must(talk_dial("127.0.0.1", node->self.port, &fd, &err), &err);
    struct pollfd polled = {.fd = fd, .events = POLLOUT};
    assert_int_equal(poll(&polled, 1, SOON_MS), 1);
    must(wire_new(stranger->self, fd, true, &stranger->wire, &err), &err);
}

static void say_hello(struct stranger *stranger, const uint8_t *own, const uint8_t *other)
{
    uint8_t hello[TUNNEL_HELLO_SIZE];

    tunnel_hello_write(own, other, hello);
    assert_true(wire_put(stranger->wire, TUNNEL_HELLO, (struct bytes){hello, sizeof hello}, SIZE_MAX));
}

enum claim { OWN_KEY, WRONG_KEY, WRONG_LEASE, WRONG_OTHER_LEASE, NO_HELLO, SMALLER_NODE };

static const struct stranger_row {
    const char *name;
    enum claim claim;
    bool is_taken;
} strangers[] = {
    {"the node itself", OWN_KEY, true},
    {"another key, with the right leases", WRONG_KEY, false},
    {"the right key, with a lease of another attempt", WRONG_LEASE, false},
    {"the right key, for a lease of another attempt", WRONG_OTHER_LEASE, false},
    {"the right key, and a packet first", NO_HELLO, false},
    {"a node that is to be called, and calls", SMALLER_NODE, false},
};

/* Node 1 of three runs; the test is node 2, or somebody who wants to be, and node 0. */
static void a_stranger(void **state)
{
    const struct stranger_row *row = *state;
    static const uint8_t another[TUNNEL_DIGEST_SIZE] = {99};
    GROUP group = {.count = 0};
    STRANGER stranger = {.wire = NULL};
    OWNED(ecdsa_key) *false_key = NULL;
    struct error err = {0};

    make_group(&group, 3);
    start(&group, 1, SOON_MS);
    const struct node *as = &group.nodes[row->claim == SMALLER_NODE ? 0 : 2], *to = &group.nodes[1];
    must(ecdsa_key_new(&false_key, &err), &err);
    call_as(&stranger, row->claim == WRONG_KEY ? false_key : as->key, to);
    if (row->claim == NO_HELLO) {
        uint8_t packet[64];
        const size_t length = make_packet(packet, nodes_address(2), nodes_address(1), "early");
        assert_true(wire_put(stranger.wire, TUNNEL_PACKET, (struct bytes){packet, length}, SIZE_MAX));
    } else
        say_hello(&stranger, row->claim == WRONG_LEASE ? another : as->self.lease,
                  row->claim == WRONG_OTHER_LEASE ? another : to->self.lease);
    assert_int_equal(pass_time(stranger.wire, clock_monotonic_ms() + (row->is_taken ? 500 : SOON_MS)), row->is_taken);
    await_count(&group, 1, row->is_taken ? offsetof(struct tunnel_counts, joined) : offsetof(struct tunnel_counts, strangers), 1);
    if (!row->is_taken) assert_int_equal(tunnel_counts(to->tunnel).joined, 0);
}

/* A node that is proven, and whose payload has taken its runner over: it can't send as another node, nor to one. */
static void a_proven_node_sends_as_itself_alone(void **state)
{
    GROUP group = {.count = 0};
    STRANGER stranger = {.wire = NULL};
    uint8_t packet[64];

    (void)state;
    make_group(&group, 3);
    start(&group, 1, SOON_MS);
    call_as(&stranger, group.nodes[2].key, &group.nodes[1]);
    say_hello(&stranger, group.nodes[2].self.lease, group.nodes[1].self.lease);
    const struct {
        int64_t from, to;
    } wrong[] = {{0, 1}, {1, 1}, {2, 0}, {2, 2}, {5, 1}};
    for (size_t i = 0; i < COUNT(wrong); i++) {
        const size_t length = make_packet(packet, nodes_address(wrong[i].from), nodes_address(wrong[i].to), "wrong");
        assert_true(wire_put(stranger.wire, TUNNEL_PACKET, (struct bytes){packet, length}, SIZE_MAX));
    }
    const size_t length = make_packet(packet, nodes_address(2), nodes_address(1), "right");
    assert_true(wire_put(stranger.wire, TUNNEL_PACKET, (struct bytes){packet, length}, SIZE_MAX));
    assert_true(pass_time(stranger.wire, clock_monotonic_ms() + 300));
    assert_came(&group, 1, "right");
    await_count(&group, 1, offsetof(struct tunnel_counts, dropped), COUNT(wrong));
    assert_true(wire_put(stranger.wire, TUNNEL_HELLO, (struct bytes){group.nodes[0].self.lease, TUNNEL_HELLO_SIZE}, SIZE_MAX));
    assert_false(pass_time(stranger.wire, clock_monotonic_ms() + SOON_MS)); /* a second hello ends it */
}

/* Who answers in the place of the node that is called. */
static void a_false_node_is_not_joined(void **state)
{
    GROUP group = {.count = 0};
    struct error err = {0};
    char why[TUNNEL_WHY_SIZE];

    (void)state;
    make_group(&group, 2);
    OWNED(ecdsa_key) *right = group.nodes[0].key;
    must(ecdsa_key_new(&group.nodes[0].key, &err), &err); /* node 0 has another key than its lease names */
    start(&group, 0, 1000);
    start(&group, 1, 1000);
    assert_false(tunnel_wait(group.nodes[1].tunnel, NULL, &err).ok);
    assert_true(tunnel_is_broken(group.nodes[1].tunnel, why) && strstr(why, "node 0 ") != NULL);
    assert_int_equal(tunnel_counts(group.nodes[1].tunnel).joined, 0);
}

/* ---- lost connections, and the end ---- */

/* A node whose runner begins anew with the same lease: no program does so, but a connection that is lost looks like this. */
static void a_lost_connection_is_made_again(void **state)
{
    GROUP group = {.count = 0};
    struct error err = {0};

    (void)state;
    make_group(&group, 2);
    join(&group);
    for (size_t lost = 0; lost < 2; lost++) { /* the one that is called, and the one that calls */
        struct node *node = &group.nodes[lost];
        tunnel_free(node->tunnel);
        file_close_owned(&node->device);
        const struct talk_place same = {.address = "127.0.0.1", .port = node->self.port, .ports = 1};
        must(talk_listen(&same, &node->door, &node->self.port, &err), &err);
        start(&group, lost, SOON_MS);
        must(tunnel_wait(node->tunnel, NULL, &err), &err);
        await_count(&group, 1 - lost, offsetof(struct tunnel_counts, joined), 2);
        send_as(&group, 0, nodes_address(0), nodes_address(1), "again");
        assert_came(&group, 1, "again");
        send_as(&group, 1, nodes_address(1), nodes_address(0), "and back");
        assert_came(&group, 0, "and back");
    }
}

static void a_node_that_is_gone_breaks_it(void **state)
{
    GROUP group = {.count = 0};
    struct error err = {0};
    char why[TUNNEL_WHY_SIZE];

    (void)state;
    make_group(&group, 2);
    start(&group, 0, 500);
    start(&group, 1, 500);
    must(tunnel_wait(group.nodes[0].tunnel, NULL, &err), &err);
    assert_false(tunnel_is_broken(group.nodes[0].tunnel, why));
    tunnel_free(group.nodes[1].tunnel);
    group.nodes[1].tunnel = NULL;
    for (int i = 0; i < 100 && !tunnel_is_broken(group.nodes[0].tunnel, why); i++) (void)usleep(50000);
    assert_true(tunnel_is_broken(group.nodes[0].tunnel, why) && strstr(why, "node 1 ") != NULL);
}

static void a_wait_ends_when_the_run_is_stopped(void **state)
{
    static const volatile sig_atomic_t cancelled = 1;
    GROUP group = {.count = 0};
    struct error err = {0};

    (void)state;
    make_group(&group, 2);
    start(&group, 0, SOON_MS);
    assert_false(tunnel_wait(group.nodes[0].tunnel, &cancelled, &err).ok);
    assert_non_null(strstr(err.message, "stopped"));
}

/* The kernel of a sandbox still answers after its program has ended, and nobody takes its end for a loss. */
static void an_end_waits_for_the_others(void **state)
{
    GROUP group = {.count = 0};
    char why[TUNNEL_WHY_SIZE];

    (void)state;
    make_group(&group, 2);
    join(&group);
    tunnel_end(group.nodes[0].tunnel);
    const int64_t began_ms = clock_monotonic_ms();
    tunnel_linger(group.nodes[0].tunnel, 700, NULL); /* node 1 has not ended */
    assert_true(clock_monotonic_ms() - began_ms >= 700);
    send_as(&group, 1, nodes_address(1), nodes_address(0), "the last data");
    assert_came(&group, 0, "the last data");
    tunnel_end(group.nodes[1].tunnel);
    tunnel_linger(group.nodes[0].tunnel, SOON_MS, NULL);
    tunnel_linger(group.nodes[1].tunnel, SOON_MS, NULL);
    tunnel_free(group.nodes[0].tunnel);
    group.nodes[0].tunnel = NULL;
    (void)usleep(300000);
    assert_false(tunnel_is_broken(group.nodes[1].tunnel, why));
}

static void what_nobody_takes_is_dropped(void **state)
{
    GROUP group = {.count = 0};
    uint8_t *packet = calloc(1, NODES_MTU);

    (void)state;
    assert_non_null(packet);
    STRANGER stranger = {.wire = NULL};
    make_group(&group, 2);
    start(&group, 0, SOON_MS);
    call_as(&stranger, group.nodes[1].key, &group.nodes[0]);
    say_hello(&stranger, group.nodes[1].self.lease, group.nodes[0].self.lease);
    assert_true(pass_time(stranger.wire, clock_monotonic_ms() + 300)); /* joined, and takes nothing any more */
    (void)make_packet(packet, nodes_address(0), nodes_address(1), "x");
    store_u16(packet + 2, NODES_MTU);
    for (size_t i = 0; i < 4000; i++) { /* 64 MB */
        struct pollfd polled = {.fd = group.nodes[0].device, .events = POLLOUT};
        assert_int_equal(poll(&polled, 1, SOON_MS), 1);
        assert_int_equal(write(group.nodes[0].device, packet, NODES_MTU), NODES_MTU);
    }
    await_count(&group, 0, offsetof(struct tunnel_counts, dropped), 1000);
    free(packet);
}

/* Another node chooses the address that is called: whoever has it sees a few calls, and no flood. */
static void calls_that_fail_become_rare(void **state)
{
    GROUP group = {.count = 0};
    const int64_t until_ms = clock_monotonic_ms() + 1500;
    unsigned calls = 0;

    (void)state;
    make_group(&group, 2);
    start(&group, 1, SOON_MS); /* calls node 0, which only has a door here */
    for (int64_t now_ms = clock_monotonic_ms(); now_ms < until_ms; now_ms = clock_monotonic_ms()) {
        struct pollfd polled = {.fd = group.nodes[0].door, .events = POLLIN};
        if (poll(&polled, 1, (int)(until_ms - now_ms)) <= 0) continue;
        const int fd = accept(group.nodes[0].door, NULL, NULL);
        assert_true(fd >= 0);
        (void)close(fd);
        calls++;
    }
    assert_in_range(calls, 2, 5); /* after 100, 200, 400 and 800 ms, and as much later as a turn takes */
}

int main(void)
{
    const struct CMUnitTest tests[] = {

        cmocka_unit_test(packets_go_to_their_node),
        cmocka_unit_test(what_is_not_between_two_nodes_is_dropped),
        cmocka_unit_test(a_proven_node_sends_as_itself_alone),
        cmocka_unit_test(a_false_node_is_not_joined),
        cmocka_unit_test(a_lost_connection_is_made_again),
        cmocka_unit_test(a_node_that_is_gone_breaks_it),
        cmocka_unit_test(calls_that_fail_become_rare),
        cmocka_unit_test(a_wait_ends_when_the_run_is_stopped),
        cmocka_unit_test(an_end_waits_for_the_others),
        cmocka_unit_test(what_nobody_takes_is_dropped),
    };

    (void)signal(SIGPIPE, SIG_IGN); /* as a runner does */
    return RUN_TABLE(strangers, a_stranger) + cmocka_run_group_tests(tests, NULL, NULL);
}
