/* Addresses of runners, as a talk and a tunnel write and read them, and which of them a runner calls. */
#include "tests/support/unit.h"

#include "runner/talk/talk_priv.h"
#include "runner/talk/talk_sockets.h"

static const struct where_row {
    const char *name; /* the text */
    const char *address;
    unsigned port; /* 0: it is none */
} wheres[] = {
    {"127.0.0.1:4700", "127.0.0.1", 4700},
    {"[2001:db8::7]:1", "2001:db8::7", 1},
    {"0.0.0.0:65535", "0.0.0.0", 65535},
    {"127.0.0.1", "", 0},
    {"127.0.0.1:", "", 0},
    {"127.0.0.1:0", "", 0},
    {"127.0.0.1:65536", "", 0},
    {"127.0.0.1:47x", "", 0},
    {"node0.example:4700", "", 0},
    {"2001:db8::7:1", "", 0},
    {"[127.0.0.1]:1", "", 0},
    {"[]:1", "", 0},
    {"[::1:1", "", 0},
    {":1", "", 0},
    {"", "", 0},
};

static void check_where(void **state)
{
    const struct where_row *row = *state;
    char address[TALK_ADDRESS_SIZE], again[TALK_WHERE_SIZE];
    unsigned port = 0;

    assert_int_equal(talk_where_read(row->name, address, &port), row->port != 0);
    if (row->port == 0) return;
    assert_string_equal(address, row->address);
    assert_int_equal(port, row->port);
    talk_where_write(address, port, again);
    assert_string_equal(again, row->name);
}

static const struct call_row {
    const char *name; /* the other address */
    const char *own;
    bool may;
} calls[] = {
    {"192.0.2.8", "192.0.2.7", true},
    {"10.0.0.8", "127.0.0.1", true},
    {"2001:db8::8", "2001:db8::7", true},
    {"fd00::8", "fd00::7", true},
    {"127.0.0.1", "127.0.0.1", true},
    {"127.9.9.9", "127.0.0.1", true},
    {"169.254.3.4", "169.254.1.1", true},
    {"fe80::8", "fe80::7", true},
    {"::1", "::1", true},
    {"127.0.0.1", "192.0.2.7", false},
    {"127.255.255.254", "192.0.2.7", false},
    {"::ffff:127.0.0.1", "192.0.2.7", false},
    {"169.254.169.254", "192.0.2.7", false},
    {"169.254.169.254", "127.0.0.1", false},
    {"::1", "2001:db8::7", false},
    {"fe80::1", "2001:db8::7", false},
    {"febf::1", "2001:db8::7", false},
    {"0.0.0.0", "127.0.0.1", false},
    {"0.0.0.0", "0.0.0.0", false},
    {"0.1.2.3", "192.0.2.7", false},
    {"224.0.0.1", "192.0.2.7", false},
    {"239.255.255.255", "239.0.0.1", false},
    {"255.255.255.255", "192.0.2.7", false},
    {"ff02::1", "fe80::7", false},
    {"::", "::1", false},
    {"192.0.2.7", "192.0.2.7", false},
    {"2001:db8:0:0::7", "2001:db8::7", false},
    {"::ffff:192.0.2.7", "192.0.2.7", false},
    {"64:ff9b::c000:207", "192.0.2.7", false},
    {"64:ff9b::c000:208", "192.0.2.7", true},
    {"64:ff9b::7f00:1", "192.0.2.7", false},
    {"64:ff9b::a9fe:a9fe", "2001:db8::7", false},
    {"2002:a9fe:a9fe::1", "2001:db8::7", false},
    {"2002:7f00:1::", "2001:db8::7", false},
    {"169.254.169.254", "169.254.1.1", false},
    {"169.254.170.2", "169.254.1.1", false},
    {"fd00:ec2::254", "fd00::7", false},
    {"fd20:ce::254", "fd00::7", false},
    {"168.63.129.16", "192.0.2.7", false},
    {"100.100.100.200", "100.100.100.7", false},
    {"192.0.0.192", "192.0.2.7", false},
    {"node2.example", "192.0.2.7", false},
};

static void check_call(void **state)
{
    const struct call_row *row = *state;

    assert_int_equal(talk_may_call(row->own, row->name), row->may);
}

int main(void)
{
    return RUN_TABLE(wheres, check_where) + RUN_TABLE(calls, check_call);
}
