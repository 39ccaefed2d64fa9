/* What nodes say to each other, and which packets may pass between them. */
#include "tests/support/unit.h"

#include <netinet/in.h>

#include "runner/sandbox/nodes.h"
#include "runner/tunnel/frame.h"
#include "tests/support/packets.h"

static const struct packet_row {
    const char *name;
    int at; /* this byte of a good packet is changed; -1: none */
    uint8_t becomes;
    int more; /* bytes are added, or cut off */
    bool passes;
} packets[] = {
    {"a packet of UDP", -1, 0, 0, true},
    {"of TCP", 9, IPPROTO_TCP, 0, true},
    {"a later piece of a packet", 7, 3, 0, true},
    {"of GRE", 9, 47, 0, false},
    {"of ICMP: a question whether it is there", 20, 8, 0, true}, /* with protocol below */
    {"IPv6", 0, 0x60, 0, false},
    {"options", 0, 0x46, 0, false},
    {"a short head", 0, 0x44, 0, false},
    {"longer than it says", -1, 0, 1, false},
    {"shorter than it says", -1, 0, -1, false},
    {"a head alone, cut", -1, 0, -9, false},
};

static void a_packet(void **state)
{
    const struct packet_row *row = *state;
    uint8_t bytes[64];
    struct tunnel_packet packet;

    size_t length = make_packet(bytes, 1, 2, "12345678");
    if (row->at == IP_HEAD) bytes[9] = IPPROTO_ICMP;
    if (row->at >= 0) bytes[row->at] = row->becomes;
    bytes[length] = 0;
    length = (size_t)((int)length + row->more);
    assert_int_equal(tunnel_packet_read((struct bytes){bytes, length}, &packet), row->passes);
    if (row->passes) assert_true(packet.from == 1 && packet.to == 2);
}

static void messages_about_routes_do_not_pass(void **state)
{
    uint8_t bytes[64];
    struct tunnel_packet packet;
    const size_t length = make_packet(bytes, 1, 2, "\5       ");

    (void)state;
    bytes[9] = IPPROTO_ICMP;
    assert_false(tunnel_packet_read((struct bytes){bytes, length}, &packet));
    bytes[IP_HEAD] = 0;
    assert_true(tunnel_packet_read((struct bytes){bytes, length}, &packet));
    bytes[7] = 1; /* a later piece hides what it is */
    assert_false(tunnel_packet_read((struct bytes){bytes, length}, &packet));
}

static const struct frame_row {
    const char *name;
    uint8_t bytes[8];
    size_t length, whole; /* whole 0: not all of it came */
    bool is_frame;
} frames[] = {
    {"nothing yet", {0}, 0, 0, true},
    {"half a head", {'p', 0}, 2, 0, true},
    {"a bye", {'e', 0, 0, 9}, 4, 3, true},
    {"a bye with a content", {'e', 0, 1, 0}, 4, 0, false},
    {"a packet whose end has not come", {'p', 0, 20, 0x45}, 4, 0, true},
    {"a packet without a head", {'p', 0, 19, 0x45}, 4, 0, false},
    {"a packet that is too long", {'p', 0x3e, 0x81}, 3, 0, false},
    {"the longest packet", {'p', 0x3e, 0x80}, 3, 0, true},
    {"a hello that is too short", {'h', 0, 64}, 3, 0, false},
    {"a letter that nobody knows", {'x', 0, 0}, 3, 0, false},
};

static void a_frame(void **state)
{
    const struct frame_row *row = *state;
    struct tunnel_frame frame;
    struct error err;
    size_t length = 7;

    assert_int_equal(tunnel_frame_read((struct bytes){row->bytes, row->length}, &frame, &length, &err).ok, row->is_frame);
    assert_int_equal(length, row->whole);
}

static void each_node_has_its_address(void **state)
{
    char text[NODES_ADDRESS_SIZE];

    (void)state;
    for (int64_t node = 0; node < NODES_MAX; node++) assert_true(nodes_find(nodes_address(node), NODES_MAX) == node);
    assert_true(nodes_find(nodes_address(3), 3) == -1 && nodes_find(nodes_address(0) - 1, 3) == -1 && nodes_find(0, 256) == -1);
    assert_true(nodes_find(UINT32_MAX, 256) == -1);
    nodes_address_text(0, text);
    assert_string_equal(text, "198.18.0.1");
    nodes_address_text(255, text);
    assert_string_equal(text, "198.18.1.0");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(messages_about_routes_do_not_pass),
                                              cmocka_unit_test(each_node_has_its_address)};

    return RUN_TABLE(packets, a_packet) + RUN_TABLE(frames, a_frame) + cmocka_run_group_tests(tests, NULL, NULL);
}
