/* Blocks of addresses: their form, their addresses, and the network of an address. */
#include "tests/support/unit.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/network.h"

static struct network read_network(const char *text)
{
    struct network network;

    if (network_read(bytes_of_text(text), &network) != NETWORK_GOOD) fail_msg("%s is no network", text);
    return network;
}

static struct network read_address(const char *text)
{
    struct network network;

    if (!network_of_address(text, &network)) fail_msg("%s is no address", text);
    return network;
}

static const struct form_row {
    const char *name, *text;
    enum network_form form;
    const char *written; /* of a good one */
} form_rows[] = {
    {"IPv4", "10.1.0.0/16", NETWORK_GOOD, "10.1.0.0/16"},
    {"one address", "192.0.2.7/32", NETWORK_GOOD, "192.0.2.7/32"},
    {"all of IPv4", "0.0.0.0/0", NETWORK_GOOD, "0.0.0.0/0"},
    {"IPv6", "2001:db8::/33", NETWORK_GOOD, "2001:db8::/33"},
    {"all of IPv6", "::/0", NETWORK_GOOD, "::/0"},
    {"one address of IPv6", "2001:db8::1/128", NETWORK_GOOD, "2001:db8::1/128"},
    {"a long spelling", "2001:0DB8:0::/32", NETWORK_GOOD, "2001:db8::/32"},
    {"IPv4 in the clothes of IPv6", "::ffff:10.0.0.0/104", NETWORK_GOOD, "10.0.0.0/8"},
    {"the longest spelling", "2001:0db8:0000:0000:0000:0000:255.255.255.255/128", NETWORK_GOOD, "2001:db8::ffff:ffff/128"},
    {"nothing", "", NETWORK_WITHOUT_PREFIX, NULL},
    {"no prefix", "10.0.0.0", NETWORK_WITHOUT_PREFIX, NULL},
    {"much", "1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb/64", NETWORK_WITHOUT_PREFIX, NULL},
    {"no address", "/8", NETWORK_MALFORMED, NULL},
    {"a name", "store.example/32", NETWORK_MALFORMED, NULL},
    {"three parts", "10.0.0/8", NETWORK_MALFORMED, NULL},
    {"octal", "010.0.0.0/8", NETWORK_MALFORMED, NULL},
    {"too long a prefix", "10.0.0.0/33", NETWORK_MALFORMED, NULL},
    {"too long for IPv6", "::/129", NETWORK_MALFORMED, NULL},
    {"no number", "10.0.0.0/x", NETWORK_MALFORMED, NULL},
    {"a zero in front", "10.0.0.0/08", NETWORK_MALFORMED, NULL},
    {"an empty prefix", "10.0.0.0/", NETWORK_MALFORMED, NULL},
    {"two prefixes", "10.0.0.0/8/8", NETWORK_MALFORMED, NULL},
    {"a scope", "fe80::1%eth0/64", NETWORK_MALFORMED, NULL},
    {"bits behind", "10.0.0.1/8", NETWORK_WITH_BITS_BEHIND, NULL},
    {"the bit just behind", "10.0.0.0/6", NETWORK_WITH_BITS_BEHIND, NULL},
    {"bits behind IPv6", "2001:db8::1/64", NETWORK_WITH_BITS_BEHIND, NULL},
    {"bits behind all of it", "::1/0", NETWORK_WITH_BITS_BEHIND, NULL},
};

static void a_text_is_a_network_or_not(void **state)
{
    const struct form_row *row = *state;
    struct network network;
    char written[NETWORK_TEXT_SIZE];

    memset(&network, UNTOUCHED_BYTE, sizeof network);
    assert_int_equal(network_read(bytes_of_text(row->text), &network), row->form);
    if (row->form != NETWORK_GOOD) {
        assert_true(is_untouched(&network, sizeof network));
        return;
    }
    network_write(&network, written);
    assert_string_equal(written, row->written);
}

static void a_network_ends_with_its_text(void **state)
{
    static const char text[] = "10.0.0.0/8\0x";
    struct network network;

    (void)state;
    assert_int_equal(network_read((struct bytes){(const uint8_t *)text, sizeof text - 1}, &network), NETWORK_WITHOUT_PREFIX);
}

static const struct hold_row {
    const char *name, *network, *address;
    bool is_held;
} hold_rows[] = {
    {"the first", "10.1.0.0/16", "10.1.0.0", true},
    {"the last", "10.1.0.0/16", "10.1.255.255", true},
    {"the one before", "10.1.0.0/16", "10.0.255.255", false},
    {"the one behind", "10.1.0.0/16", "10.2.0.0", false},
    {"in the middle of a byte", "10.8.0.0/13", "10.15.255.255", true},
    {"behind the middle of a byte", "10.8.0.0/13", "10.16.0.0", false},
    {"one address", "192.0.2.7/32", "192.0.2.7", true},
    {"its neighbour", "192.0.2.7/32", "192.0.2.6", false},
    {"of IPv6", "2001:db8::/33", "2001:db8:7fff::1", true},
    {"beside it", "2001:db8::/33", "2001:db8:8000::1", false},
    {"all of IPv4", "0.0.0.0/0", "255.255.255.255", true},
    {"all of IPv4, in the clothes of IPv6", "0.0.0.0/0", "::ffff:10.0.0.1", true},
    {"all of IPv4 is no IPv6", "0.0.0.0/0", "2001:db8::1", false},
    {"all of IPv6", "::/0", "ffff::1", true},
    {"all of IPv6 is no IPv4", "::/0", "10.0.0.1", false},
    {"what begins as IPv4 does", "::/80", "10.0.0.1", false},
};

static void a_network_holds_an_address_or_not(void **state)
{
    const struct hold_row *row = *state;
    const struct network network = read_network(row->network), address = read_address(row->address);

    assert_int_equal(network_holds(&network, &address), row->is_held);
    assert_true(network_holds(&network, &network));
    assert_int_equal(network_holds(&address, &network), row->is_held && network.bits == address.bits);
}

static const struct widen_row {
    const char *name, *address;
    unsigned ipv4_bits, ipv6_bits;
    const char *network;
} widen_rows[] = {
    {"a /24", "192.0.2.77", 24, 64, "192.0.2.0/24"},
    {"in the clothes of IPv6", "::ffff:192.0.2.77", 24, 64, "192.0.2.0/24"}, /* or all of IPv4 would be one network */
    {"one address", "192.0.2.77", 32, 64, "192.0.2.77/32"},
    {"in the middle of a byte", "192.0.2.255", 27, 64, "192.0.2.224/27"},
    {"all", "192.0.2.255", 0, 64, "0.0.0.0/0"},
    {"a /64", "2001:db8:1:2:3:4:5:6", 24, 64, "2001:db8:1:2::/64"},
    {"a /56", "2001:db8:1:2ff:3::4", 24, 56, "2001:db8:1:200::/56"},
    {"all of IPv6", "2001:db8::1", 24, 0, "::/0"},
};

static void an_address_is_in_a_network(void **state)
{
    const struct widen_row *row = *state;
    const struct network address = read_address(row->address);
    struct network network = address;
    char written[NETWORK_TEXT_SIZE];

    network_widen(&network, row->ipv4_bits, row->ipv6_bits);
    network_write(&network, written);
    assert_string_equal(written, row->network);
    assert_true(network_holds(&network, &address));
    network_widen(&network, 32, 128); /* it never becomes narrower */
    network_write(&network, written);
    assert_string_equal(written, row->network);
}

static void sockets_have_addresses(void **state)
{
    struct sockaddr_in four = {.sin_family = AF_INET};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    const struct sockaddr local = {.sa_family = AF_UNIX};
    struct network network;
    char text[INET6_ADDRSTRLEN];

    (void)state;
    assert_int_equal(inet_pton(AF_INET, "192.0.2.1", &four.sin_addr), 1);
    assert_true(network_of_socket((const struct sockaddr *)&four, &network));
    network_write_address(&network, text);
    assert_string_equal(text, "192.0.2.1");
    assert_int_equal(inet_pton(AF_INET6, "::ffff:192.0.2.2", &six.sin6_addr), 1);
    assert_true(network_of_socket((const struct sockaddr *)&six, &network));
    network_write_address(&network, text);
    assert_string_equal(text, "192.0.2.2");
    assert_true(network_is_ipv4(&network));
    assert_int_equal(inet_pton(AF_INET6, "2001:db8::3", &six.sin6_addr), 1);
    assert_true(network_of_socket((const struct sockaddr *)&six, &network));
    network_write_address(&network, text);
    assert_string_equal(text, "2001:db8::3");
    assert_false(network_is_ipv4(&network));
    assert_false(network_of_socket(&local, &network));
    assert_false(network_of_socket(NULL, &network));
    assert_false(network_of_address("unix", &network));
    assert_false(network_of_address("192.0.2.1/32", &network));
}

static const struct list_row {
    const char *name, *text;
    size_t count;
    const char *message; /* NULL: it is a list */
} list_rows[] = {
    {"none", "", 0, NULL},
    {"nothing but what divides", " ,\t, ", 0, NULL},
    {"two", "10.1.0.0/16,  2001:db8::/33", 2, NULL},
    {"sixteen",
     "1.0.0.0/8 2.0.0.0/8 3.0.0.0/8 4.0.0.0/8 5.0.0.0/8 6.0.0.0/8 7.0.0.0/8 8.0.0.0/8 9.0.0.0/8 10.0.0.0/8 11.0.0.0/8 "
     "12.0.0.0/8 13.0.0.0/8 14.0.0.0/8 15.0.0.0/8 16.0.0.0/8",
     16, NULL},
    {"seventeen",
     "1.0.0.0/8 2.0.0.0/8 3.0.0.0/8 4.0.0.0/8 5.0.0.0/8 6.0.0.0/8 7.0.0.0/8 8.0.0.0/8 9.0.0.0/8 10.0.0.0/8 11.0.0.0/8 "
     "12.0.0.0/8 13.0.0.0/8 14.0.0.0/8 15.0.0.0/8 16.0.0.0/8 17.0.0.0/8",
     0, "some_networks: more than 16 networks"},
    {"a second that is none", "10.0.0.0/8, 10.0.0.0/99", 0,
     "some_networks: 10.0.0.0/99 is no network: 10.1.0.0/16 or 2001:db8::/32 is one"},
    {"without a prefix", "10.0.0.0", 0, "some_networks: a network is an address and a prefix, such as 10.1.0.0/16"},
    {"bits behind", "10.0.0.1/8 11.0.0.0/8", 0, "some_networks: 10.0.0.1/8 has bits set behind its prefix"},
};

static void a_list_has_networks(void **state)
{
    const struct list_row *row = *state;
    struct networks networks;
    struct error err = {0};

    memset(&networks, UNTOUCHED_BYTE, sizeof networks);
    assert_int_equal(networks_parse("some_networks", row->text, &networks, &err).ok, row->message == NULL);
    if (row->message != NULL) {
        assert_string_equal(err.message, row->message);
        assert_true(is_untouched(&networks, sizeof networks));
        return;
    }
    assert_int_equal(networks.count, row->count);
    const struct network second = read_address("2001:db8::1"), other = read_address("192.0.2.1");
    assert_int_equal(networks_hold(&networks, &second), row->count == 2);
    assert_false(networks_hold(&networks, &other));
}

static const struct special_row {
    const char *name; /* the address */
    bool is_special;
} special_rows[] = {
    {"192.0.2.7", false},
    {"2001:db8::7", false},
    {"127.0.0.1", false},
    {"::1", false},
    {"10.0.0.1", false},
    {"fd00::1", false},
    {"64:ff9b::c000:207", false},
    {"2002:c000:207::", false},
    {"0.0.0.0", true},
    {"169.254.169.254", true},
    {"::", true},
    {"224.0.0.1", true},
    {"255.255.255.255", true},
    {"fe80::1", true},
    {"ff02::1", true},
    {"fd00:ec2::254", true},
    {"fd20:ce::254", true},
    {"168.63.129.16", true},
    {"100.100.100.200", true},
    {"192.0.0.192", true},
    {"::ffff:169.254.1.1", true},
    {"64:ff9b::a9fe:a9fe", true},
    {"2002:a9fe:a9fe::1", true},
    {"64:ff9b:1::a9fe:a9fe", false},
};

static void an_address_is_special_or_not(void **state)
{
    const struct special_row *row = *state;
    const struct network address = read_address(row->name);

    assert_int_equal(network_is_special(&address), row->is_special);
    assert_int_equal(network_is_loopback(&address), strcmp(row->name, "127.0.0.1") == 0 || strcmp(row->name, "::1") == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sockets_have_addresses), cmocka_unit_test(a_network_ends_with_its_text)};

    return RUN_TABLE(form_rows, a_text_is_a_network_or_not) + RUN_TABLE(hold_rows, a_network_holds_an_address_or_not) +
           RUN_TABLE(widen_rows, an_address_is_in_a_network) + RUN_TABLE(list_rows, a_list_has_networks) +
           RUN_TABLE(special_rows, an_address_is_special_or_not) + cmocka_run_group_tests(tests, NULL, NULL);
}
