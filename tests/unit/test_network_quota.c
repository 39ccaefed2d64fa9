/* The network of an address, and its limit of connections. */
#include "tests/support/unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "gateway/http/network_quota.h"

static struct sockaddr_storage address_of(const char *text)
{
    struct sockaddr_in four = {.sin_family = AF_INET};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    struct sockaddr_storage address = {0};

    if (inet_pton(AF_INET, text, &four.sin_addr) == 1) memcpy(&address, &four, sizeof four);
    else if (inet_pton(AF_INET6, text, &six.sin6_addr) == 1) memcpy(&address, &six, sizeof six);
    else address.ss_family = AF_UNIX;
    return address;
}

static void an_address_has_a_network(void **state)
{
    static const struct {
        const char *address, *network;
    } rows[] = {
        {"192.0.2.1", "192.0.2.0"},
        {"192.0.2.255", "192.0.2.0"},
        {"192.0.3.1", "192.0.3.0"},
        {"::ffff:192.0.2.77", "192.0.2.0"}, /* or all of IPv4 would be one network */
        {"2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"},
        {"2001:db8:1:3::6", "2001:db8:1:3::"},
        {"::1", "::"},
    };
    char network[CLIENT_NETWORK_SIZE];

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct sockaddr_storage address = address_of(rows[i].address);
        assert_true(network_of_client((const struct sockaddr *)&address, network));
        assert_string_equal(network, rows[i].network);
    }
    assert_false(network_of_client(&(struct sockaddr){.sa_family = AF_UNIX}, network));
    assert_false(network_of_client(NULL, network));
}

/* The number of accepted connections, of `tries` from the address. */
static unsigned let_in(struct network_quota *quota, const char *text, unsigned tries, struct network_ticket *places)
{
    const struct sockaddr_storage address = address_of(text);
    unsigned count = 0;

    for (unsigned i = 0; i < tries; i++) {
        const enum network_room room = network_quota_room(quota, (const struct sockaddr *)&address);
        assert_int_equal(network_quota_enter(quota, (const struct sockaddr *)&address, &places[i]), room);
        count += room == NETWORK_HAS_ROOM;
    }
    return count;
}

static void a_network_has_its_share_and_less_of_the_last_quarter(void **state)
{
    struct network_ticket first[64] = {0}, second[64] = {0}, third[64] = {0}, fourth[64] = {0}, local[64] = {0};
    OWNED(network_quota) *quota = NULL;
    struct error err = {0};

    (void)state;
    assert_true(network_quota_new(&(struct network_limits){64, 50, 64}, &quota, &err).ok);
    assert_int_equal(let_in(quota, "192.0.2.1", 40, first), 32);
    assert_int_equal(let_in(quota, "192.0.2.2", 10, first + 40), 0);
    assert_int_equal(let_in(quota, "192.0.3.1", 40, second), 16); /* 48 of 64 are taken */
    assert_int_equal(let_in(quota, "192.0.4.1", 40, third), 4);
    assert_int_equal(let_in(quota, "2001:db8::1", 40, fourth), 4);
    assert_int_equal(let_in(quota, "unix", 40, local), 40);
    for (unsigned i = 0; i < 8; i++) network_quota_leave(quota, &first[i]);
    assert_int_equal(let_in(quota, "192.0.4.2", 1, third + 40), 0); /* 48 again: 64 - 8 - 8 */
    network_quota_leave(quota, &first[8]);
    assert_int_equal(let_in(quota, "192.0.4.2", 1, third + 40), 1);
    for (unsigned i = 0; i < COUNT(local); i++) network_quota_leave(quota, &local[i]);
}

static void an_address_has_its_limit(void **state)
{
    struct network_ticket first[8] = {0}, second[8] = {0}, mapped[8] = {0};
    OWNED(network_quota) *quota = NULL;
    struct error err = {0};

    (void)state;
    assert_true(network_quota_new(&(struct network_limits){64, 50, 3}, &quota, &err).ok);
    assert_int_equal(let_in(quota, "192.0.2.1", 8, first), 3);
    assert_int_equal(let_in(quota, "::ffff:192.0.2.1", 8, mapped), 0);
    assert_int_equal(let_in(quota, "192.0.2.2", 8, second), 3);
    const struct sockaddr_storage address = address_of("192.0.2.1");
    assert_int_equal(network_quota_room(quota, (const struct sockaddr *)&address), NETWORK_ADDRESS_IS_FULL);
    network_quota_leave(quota, &first[0]);
    assert_int_equal(network_quota_room(quota, (const struct sockaddr *)&address), NETWORK_HAS_ROOM);
}

static struct result network_quota_once(void *context, struct error *err)
{
    OWNED(network_quota) *quota = NULL;

    (void)context;
    TRY_UNTOUCHED_BYTES(quota, network_quota_new(&(struct network_limits){8, 50, 8}, &quota, err));
    return SUCCESS;
}

static void it_survives_lack_of_memory(void **state)
{
    (void)state;
    fail_each(network_quota_once, NULL, ERROR_NO_MEMORY, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_has_a_network),
        cmocka_unit_test(a_network_has_its_share_and_less_of_the_last_quarter),
        cmocka_unit_test(an_address_has_its_limit),
        cmocka_unit_test(it_survives_lack_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
