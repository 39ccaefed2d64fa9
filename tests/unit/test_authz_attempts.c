/* The limit of wrong secrets from one network. */
#include "tests/support/token_world.h"

#include <arpa/inet.h>

#include "authz/attempts.h"

#define HOUR_MS INT64_C(3600000)

union place {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
};

static union place place_of(const char *address)
{
    union place place = {.any = {.sa_family = AF_INET}};

    if (inet_pton(AF_INET, address, &place.four.sin_addr) == 1) return place;
    place.six = (struct sockaddr_in6){.sin6_family = AF_INET6};
    assert_int_equal(inet_pton(AF_INET6, address, &place.six.sin6_addr), 1);
    return place;
}

static bool try_from(struct attempts *attempts, const char *address, const char *name, int64_t now_ms, unsigned *wait_s)
{
    const union place place = place_of(address);
    const struct attempts_who who = {.client = &place.any, .name = bytes_of_text(name)};

    return attempts_begin(attempts, &who, now_ms, wait_s);
}

static struct attempts *make(unsigned per_network, unsigned per_name)
{
    const struct attempts_limits limits = {per_network, per_name};
    struct attempts *attempts = NULL;
    struct error err = {0};

    assert_true(attempts_new(&limits, &attempts, &err).ok);
    return attempts;
}

static unsigned allowed_of(struct attempts *attempts, const char *address, const char *name, unsigned tries)
{
    unsigned allowed = 0, wait_s = 0;

    for (unsigned i = 0; i < tries; i++) allowed += try_from(attempts, address, name, HOUR_MS, &wait_s);
    return allowed;
}

static void a_name_is_refused_from_one_network_only(void **state)
{
    OWNED(attempts) *attempts = make(100, 5);

    (void)state;
    assert_int_equal(allowed_of(attempts, "192.0.2.1", "robot$acme+ci", 50), 5);
    assert_int_equal(allowed_of(attempts, "192.0.2.1", "robot$acme+other", 50), 5);
    assert_int_equal(allowed_of(attempts, "192.0.2.2", "robot$acme+ci", 50), 5);
}

static void a_network_has_a_limit_over_all_names(void **state)
{
    OWNED(attempts) *attempts = make(12, 5);
    unsigned allowed = 0;
    char name[32];

    (void)state;
    for (unsigned i = 0; i < 50; i++) {
        (void)snprintf(name, sizeof name, "robot$%u", i);
        allowed += allowed_of(attempts, "192.0.2.1", name, 1);
    }
    assert_int_equal(allowed, 12);
    assert_int_equal(allowed_of(attempts, "192.0.2.2", "robot$0", 1), 1);
}

/* An attempt that is refused for its name must not count against the network. */
static void who_is_refused_is_not_counted(void **state)
{
    OWNED(attempts) *attempts = make(10, 2);

    (void)state;
    assert_int_equal(allowed_of(attempts, "192.0.2.1", "robot$a", 1000), 2);
    assert_int_equal(allowed_of(attempts, "192.0.2.1", "robot$b", 2), 2);
    assert_int_equal(allowed_of(attempts, "192.0.2.1", "robot$c", 2), 2);
}

static const struct network_row {
    const char *name, *a, *b;
    bool are_one;
} network_rows[] = {
    {"two addresses of one /64", "2001:db8:0:1::1", "2001:db8:0:1:ffff::2", true},
    {"two /64", "2001:db8:0:1::1", "2001:db8:0:2::1", false},
    {"IPv4 over IPv6", "::ffff:192.0.2.1", "::ffff:192.0.2.2", false},
    {"one IPv4 address in both spellings", "::ffff:192.0.2.1", "192.0.2.1", true},
};

static void knows_networks(void **state)
{
    const struct network_row *row = *state;
    OWNED(attempts) *attempts = make(3, 3);

    assert_int_equal(allowed_of(attempts, row->a, "robot$a", 10), 3);
    assert_int_equal(allowed_of(attempts, row->b, "robot$a", 10), row->are_one ? 0 : 3);
}

static void time_gives_back_at_its_rate(void **state)
{
    OWNED(attempts) *attempts = make(1000, 6);
    unsigned wait_s = 0, allowed = 0;
    int64_t now_ms = HOUR_MS;

    (void)state;
    assert_int_equal(allowed_of(attempts, "192.0.2.1", "robot$a", 10), 6);
    assert_false(try_from(attempts, "192.0.2.1", "robot$a", now_ms, &wait_s));
    assert_int_equal(wait_s, 10);
    /* Asks each millisecond: the part of an attempt that returns in one must not be rounded away. */
    for (int i = 0; i < 60000; i++) allowed += try_from(attempts, "192.0.2.1", "robot$a", ++now_ms, &wait_s);
    assert_int_equal(allowed, 6);
    now_ms += HOUR_MS;
    for (int i = 0; i < 10; i++) allowed += try_from(attempts, "192.0.2.1", "robot$a", now_ms, &wait_s);
    assert_int_equal(allowed, 12);
}

static void what_was_right_does_not_count(void **state)
{
    const union place place = place_of("192.0.2.1");
    const struct attempts_who who = {.client = &place.any, .name = bytes_of_text("robot$a")};
    OWNED(attempts) *attempts = make(3, 2);
    unsigned wait_s = 0;

    (void)state;
    for (int i = 0; i < 100; i++) {
        assert_true(attempts_begin(attempts, &who, HOUR_MS, &wait_s));
        attempts_reset(attempts, &who, HOUR_MS);
    }
    assert_int_equal(allowed_of(attempts, "192.0.2.1", "robot$a", 10), 2);
}

/* A flood of names from everywhere takes slots, but never those of names that are refused now. */
static void a_flood_makes_nobody_else_wait(void **state)
{
    OWNED(attempts) *attempts = make(1000000, 4);
    char address[32], name[32];

    (void)state;
    assert_int_equal(allowed_of(attempts, "192.0.2.1", "robot$a", 10), 4);
    for (unsigned i = 0; i < 100000; i++) {
        (void)snprintf(address, sizeof address, "10.%u.%u.%u", i >> 16, i >> 8 & 255, i & 255);
        (void)snprintf(name, sizeof name, "robot$%u", i);
        assert_int_equal(allowed_of(attempts, address, name, 1), 1);
    }
    assert_int_equal(allowed_of(attempts, "192.0.2.1", "robot$a", 10), 0);
}

/* --- where secrets are checked --- */

static struct authentication log_in(struct authenticator *authenticator, const char *address, const char *pair)
{
    struct buffer OWNED_BUFFER header = BUFFER(1024);
    struct authentication found = {0};
    struct error err = {0};
    const union place place = address == NULL ? (union place){0} : place_of(address);

    assert_true(buffer_add_text(&header, "Basic ", &err).ok);
    assert_true(text_base64(&header, BASE64_STANDARD, bytes_of_text(pair), &err).ok);
    const struct credential credential = {.endpoint = CREDENTIAL_AT_TOKEN,
                                          .authorization = buffer_text(&header),
                                          .client = address == NULL ? NULL : &place.any,
                                          .now_ms = world.now_s * 1000};
    assert_true(authenticate(authenticator, &credential, &found, &err).ok);
    return found;
}

static struct authenticator *limited(unsigned per_network, unsigned per_name)
{
    uint8_t point[65];
    struct authenticator *authenticator = NULL;
    struct error err = {0};

    hostile_point(world.ours, point);
    const struct authenticator_options options = {.issuer = OURS,
                                                  .service = SERVICE,
                                                  .token_kid = world.our_kid,
                                                  .token_public = point,
                                                  .directory = world.directory,
                                                  .wrong_secrets = {per_network, per_name}};
    assert_true(authenticator_new(&options, &authenticator, &err).ok);
    return authenticator;
}

#define RIGHT "robot$acme+ci:" SECRET

/*
 * Neither the answers nor their number show whether a robot exists; and other clients can't keep out the holder of the right
 * secret.
 */
static void wrong_secrets_are_limited_and_right_ones_are_always_good(void **state)
{
    static const char *const wrong[] = {"robot$acme+ci:wrong", "robot$acme+nobody:wrong"};
    static const char *const networks[] = {"192.0.2.1", "2001:db8::1", NULL /* behind a proxy */};
    OWNED(authenticator) *authenticator = limited(100, 3);

    (void)state;
    for (size_t at = 0; at < COUNT(networks); at++) {
        assert_int_equal(log_in(authenticator, networks[at], RIGHT).error, OAUTH_NONE);
        for (size_t i = 0; i < COUNT(wrong); i++) {
            for (int k = 0; k < 3; k++)
                assert_int_equal(log_in(authenticator, networks[at], wrong[i]).error, OAUTH_INVALID_CLIENT);
            const struct authentication found = log_in(authenticator, networks[at], wrong[i]);
            assert_int_equal(found.error, OAUTH_TOO_MANY);
            assert_in_range(found.wait_s, 1, 20);
            assert_int_equal(found.principal.kind, PRINCIPAL_NONE);
        }
        assert_int_equal(log_in(authenticator, networks[at], RIGHT).error, OAUTH_NONE);
        assert_int_equal(log_in(authenticator, networks[at], wrong[0]).error, OAUTH_TOO_MANY); /* it gave nothing back */
    }
}

static const struct tried_row {
    const char *name, *pair, *tried;
} tried_rows[] = {
    {"a robot with a wrong secret", "robot$acme+ci:wrong", "robot$acme+ci"},
    {"a robot of the registry that there is not", "robot$nobody:wrong", "robot$nobody"},
    {"the right secret", RIGHT, ""},
    {"a secret in the place of the name", SECRET ":" SECRET, ""},
    {"a secret behind the name", "robot$acme+ci " SECRET ":", ""},
    {"a person", "alice@bank.example:wrong", ""},
    {"two parts too many", "robot$a+b+c:wrong", ""},
    {"no name behind the sign", "robot$:wrong", ""},
    {"a name that is too long", "robot$acme+aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa:wrong", ""},
};

/* For the sealed part of the event: only a possible robot's name. */
static void a_wrong_secret_says_whose_it_was(void **state)
{
    const struct tried_row *row = *state;

    assert_int_equal(set_up(state), 0);
    struct authenticator *authenticator = limited(100, 3);
    const struct authentication found = log_in(authenticator, "192.0.2.1", row->pair);
    authenticator_free(authenticator);
    assert_int_equal(tear_down(state), 0);
    assert_string_equal(found.tried, row->tried);
}

/* A neighbour that invents names uses up the network's limit, but locks out nobody. */
static void a_flood_of_names_locks_no_neighbour_out(void **state)
{
    OWNED(authenticator) *authenticator = limited(20, 3);
    char pair[64];

    (void)state;
    for (unsigned i = 0; i < 40; i++) {
        (void)snprintf(pair, sizeof pair, "robot$acme+r%u:wrong", i);
        assert_int_equal(log_in(authenticator, "192.0.2.1", pair).error, i < 20 ? OAUTH_INVALID_CLIENT : OAUTH_TOO_MANY);
    }
    assert_int_equal(log_in(authenticator, "192.0.2.1", RIGHT).error, OAUTH_NONE);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(a_name_is_refused_from_one_network_only),
        cmocka_unit_test(a_network_has_a_limit_over_all_names),
        cmocka_unit_test(who_is_refused_is_not_counted),
        cmocka_unit_test(time_gives_back_at_its_rate),
        cmocka_unit_test(what_was_right_does_not_count),
        cmocka_unit_test(a_flood_makes_nobody_else_wait),
        cmocka_unit_test_setup_teardown(wrong_secrets_are_limited_and_right_ones_are_always_good, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_flood_of_names_locks_no_neighbour_out, set_up, tear_down),
    };
    return RUN_TABLE(network_rows, knows_networks) + RUN_TABLE(tried_rows, a_wrong_secret_says_whose_it_was) +
           cmocka_run_group_tests_name("others", others, NULL, NULL);
}
