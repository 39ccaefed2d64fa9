/* The addresses of a host, for those that must be out of reach. */
#include "tests/support/unit.h"

#include "outgoing/addresses.h"

static const struct row {
    const char *name; /* of the host */
    const char *address, *port;
} rows[] = {
    {"192.0.2.7:8443", "192.0.2.7", "8443"},
    {"192.0.2.7", "192.0.2.7", "443"},
    {"[2001:db8::7]:8443", "2001:db8::7", "8443"},
    {"[2001:db8::7]", "2001:db8::7", "443"},
    {"2001:db8::7", "2001:db8::7", "443"},
    {"127.0.0.1:8443", NULL, NULL}, /* the own loopback */
    {"[::1]:8443", NULL, NULL},
    {"no such name", NULL, NULL},
    {"192.0.2.7:no-port", NULL, NULL},
    {"", NULL, NULL},
};

static void a_host_has_addresses(void **state)
{
    const struct row *row = *state;
    struct outgoing_address found[2];
    const size_t count = outgoing_addresses(row->name, found, COUNT(found));

    assert_int_equal(count, row->address == NULL ? 0 : 1);
    if (count == 0) return;
    assert_string_equal(found[0].address, row->address);
    assert_string_equal(found[0].port, row->port);
    assert_int_equal(outgoing_addresses(row->name, found, 0), 0);
}

int main(void)
{
    return RUN_TABLE(rows, a_host_has_addresses);
}
