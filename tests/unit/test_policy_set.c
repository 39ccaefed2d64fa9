/* The signed set: its content, its signer, and the network of a client. */
#include "tests/unit/default_set_fixture.h"

#include <arpa/inet.h>
#include <string.h>

#include "crypto/dsse.h"
#include "policy/evaluate.h"
#include "policy/set_priv.h"
#include "tests/support/policy.h"
#include "tests/unit/policy_set_parts.h"

static void a_set_survives_its_envelope(void **state)
{
    OWNED(ecdsa_key) *officer = NULL;
    OWNED(ecdsa_key) *other = NULL;
    OWNED(policy_set) *set = NULL;
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    struct buffer OWNED_BUFFER envelope = BUFFER(POLICY_SET_ENVELOPE_MAX);
    struct error err = {0};

    (void)state;
    payload_of(&defaults, &payload);
    assert_true(ecdsa_key_new(&officer, &err).ok && ecdsa_key_new(&other, &err).ok);
    assert_true(policy_set_sign(buffer_bytes(&payload), officer, &envelope, &err).ok);
    assert_true(policy_set_read(buffer_bytes(&envelope), officer, &set, &err).ok);
    assert_int_equal(policy_set_epoch(set), 1);
    assert_int_equal(policy_documents_count(policy_set_documents(set)), 1);
    assert_int_equal(policy_set_region_count(set), 1);
    assert_string_equal(policy_set_region_name(set, 0), "local/main");
    policy_set_free(GIVE(set));

    assert_false(policy_set_read(buffer_bytes(&envelope), other, &set, &err).ok);
    assert_int_equal(err.kind, ERROR_DENIED);
}

static void an_envelope_of_another_type_is_no_set(void **state)
{
    OWNED(ecdsa_key) *officer = NULL;
    struct policy_set *set = NULL;
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    struct buffer OWNED_BUFFER envelope = BUFFER(POLICY_SET_ENVELOPE_MAX);
    struct error err = {0};

    (void)state;
    payload_of(&defaults, &payload);
    assert_true(ecdsa_key_new(&officer, &err).ok);
    const struct ecdsa_key *const signers[] = {officer};
    assert_true(dsse_write("application/json", buffer_bytes(&payload), signers, 1, &envelope, &err).ok);
    assert_false(policy_set_read(buffer_bytes(&envelope), officer, &set, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
}

#define EXCEPTION                                                                                                \
    "{\"apiVersion\":\"sijil.policy/v1\",\"kind\":\"ResidencyException\",\"id\":\"x1\",\"type\":\"continuity\"," \
    "\"policy\":{\"id\":\"registry-default\",\"version\":1,\"digest\":\"sha256:"                                 \
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"},"                                       \
    "\"project\":\"20000000-0000-4000-8000-000000000001\",\"lifts\":[\"R-STORE-HOME\"],\"ops\":[\"ingest\"],"    \
    "\"targets\":[\"local/main\"],\"digests\":[\"sha256:"                                                        \
    "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\"],"                                       \
    "\"not_before\":\"2026-11-01T00:00:00Z\",\"not_after\":\"2026-11-08T00:00:00Z\",\"evidence\":{},"            \
    "\"requested_by\":{\"iss\":\"i\",\"sub\":\"c\"},"                                                            \
    "\"approvals\":[{\"iss\":\"i\",\"sub\":\"a\"},{\"iss\":\"i\",\"sub\":\"b\"}],"

#define LETTERS_64 "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"
#define LETTERS_70 LETTERS_64 "zzzzzz"

#define DIGEST_OF(letter) "sha256:" letter letter letter letter letter letter letter letter
#define DIGEST_A          DIGEST_OF("aaaaaaaa")
#define DIGEST_B          DIGEST_OF("bbbbbbbb")
#define DIGEST_C          DIGEST_OF("cccccccc")

static const struct set_row {
    const char *name, *member, *value; /* value NULL: the member is removed */
    bool keeps_digest;                 /* else the digest is made anew */
    const char *said;
} set_rows[] = {
    {"a later epoch under the old digest", "epoch", "2", true, "set.digest: is not that of the other members"},
    {"no epoch", "epoch", NULL, false, "set.epoch: is missing"},
    {"epoch 0", "epoch", "0", false, "set.epoch: a whole number in its range expected"},
    {"an unknown member", "notes", "\"x\"", false, "set: a member that is not known: notes"},
    {"no networks", "networks", NULL, false, "set.networks: is missing"},
    {"a policy that is not understood", "policies", "[{}]", false, "policy.apiVersion: is missing"},
    {"a region without its provider", "regions", "{\"main\":{}}", false, "set.regions: a name that is not of the form"},
    {"a region without a name", "regions", "{\"main/\":{}}", false, "set.regions: a name that is not of the form"},
    {"a region without a provider", "regions", "{\"/main\":{}}", false, "set.regions: a name that is not of the form"},
    {"a provider in capitals", "regions", "{\"AWS/main\":{}}", false, "set.regions: a name that is not of the form"},
    {"a region in capitals", "regions", "{\"aws/MAIN\":{}}", false, "set.regions: a name that is not of the form"},
    {"a region of 70 letters", "regions", "{\"aws/" LETTERS_70 "\":{}}", false, "set.regions: a name that is not of the form"},
    {"a network without a prefix", "networks", "[{\"cidr\":\"10.1.0.0\",\"facts\":{}}]", false, "an address and a prefix"},
    {"a network of 70 letters", "networks", "[{\"cidr\":\"" LETTERS_70 "/8\",\"facts\":{}}]", false, "an address and a prefix"},
    {"a digest of 71 other letters", "digest", "\"md5:567" LETTERS_64 "\"", true, "set.digest: a digest"},
    {"a digest that is not hex", "digest", "\"sha256:" LETTERS_64 "\"", true, "set.digest: a digest"},
    {"a region of unknown facts", "regions", "{\"a/b\":{\"place\":\"AE\"}}", false, "not known: place"},
    {"a group of a wrong member", "groups", "{\"GCC\":{\"kind\":\"geo\",\"members\":[\"gcc\"]}}", false, "a place such as"},
    {"a malformed exception", "exceptions", "[{\"id\":\"x1\"}]", false, "exception.apiVersion: is missing"},
    {"an exception of fewer than no uses", "exceptions", "[" EXCEPTION "\"uses_left\":-1}]", false, "exception.uses_left"},
    {"a network with bits behind its prefix", "networks", "[{\"cidr\":\"10.1.2.0/16\",\"facts\":{}}]", false, "bits set"},
    {"a network that is no address", "networks", "[{\"cidr\":\"example.com/16\",\"facts\":{}}]", false, "no block"},
    {"a prefix that is too long", "networks", "[{\"cidr\":\"10.0.0.0/33\",\"facts\":{}}]", false, "no block"},
    {"a prefix with a zero in front", "networks", "[{\"cidr\":\"10.0.0.0/08\",\"facts\":{}}]", false, "no block"},
    {"a long spelling of IPv6", "networks", "[{\"cidr\":\"2001:0db8::/32\",\"facts\":{}}]", false, "no block"},
    {"IPv4 in disguise", "networks", "[{\"cidr\":\"::ffff:10.0.0.0/104\",\"facts\":{}}]", false, "IPv4 in disguise"},
    {"one network twice", "networks",
     "[{\"cidr\":\"10.0.0.0/8\",\"facts\":{}},{\"cidr\":\"10.0.0.0/8\",\"facts\":{\"geo\":\"AE\"}}]", false, "is there twice"},
    {"declassified without a reason", "declassified", "[{\"policy\":\"adgm\",\"scope\":[\"**\"]}]", false, "reason: is missing"},
    {"declassified with a member more", "declassified",
     "[{\"policy\":\"adgm\",\"reason\":\"x\",\"scope\":[\"**\"],\"until\":\"x\"}]", false, "not known: until"},
    {"a place of nothing", "networks", "[{\"facts\":{}}]", false, "one of cidr, authority and listener"},
    {"a network that is a listener, too", "networks", "[{\"cidr\":\"10.0.0.0/8\",\"facts\":{},\"listener\":\"ae-front\"}]", false,
     "one of cidr, authority and listener"},
    {"an authority that is no digest", "networks", "[{\"authority\":\"ca\",\"facts\":{}}]", false, "a digest sha256"},
    {"an authority that proves too much", "networks", "[{\"authority\":\"" DIGEST_A "\",\"facts\":{\"assurance\":4}}]", false,
     "at most 3"},
    {"a listener that proves too much", "networks", "[{\"facts\":{\"assurance\":3},\"listener\":\"ae-front\"}]", false,
     "at most 2"},
    {"a listener twice", "networks",
     "[{\"facts\":{},\"listener\":\"ae-front\"},{\"facts\":{\"geo\":\"AE\"},\"listener\":\"ae-front\"}]", false,
     "is there twice"},
    {"a network without facts", "networks", "[{\"cidr\":\"10.0.0.0/8\"}]", false, "set.networks.facts: is missing"},
};

static void renew_digest(json_t *json)
{
    struct buffer OWNED_BUFFER text = BUFFER(POLICY_SET_BYTES_MAX);
    char digest[SHA_TEXT_SIZE];
    struct error err = {0};

    assert_int_equal(json_object_del(json, "digest"), 0);
    assert_true(json_write_canonical(&text, json, &err).ok);
    sha_text(buffer_bytes(&text), digest);
    assert_int_equal(json_object_set_new(json, "digest", json_string(digest)), 0);
}

static void sets_are_refused(void **state)
{
    const struct set_row *row = *state;
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX), text = BUFFER(POLICY_SET_BYTES_MAX);
    struct policy_set *set = NULL;
    struct error err = {0};

    payload_of(&defaults, &payload);
    OWNED_JSON json = policy_json(buffer_text(&payload));
    if (row->value == NULL) assert_int_equal(json_object_del(json, row->member), 0);
    else assert_int_equal(json_object_set_new(json, row->member, policy_json(row->value)), 0);
    if (!row->keeps_digest) renew_digest(json);
    assert_true(json_write_canonical(&text, json, &err).ok);
    assert_false(policy_set_compile(buffer_bytes(&text), &set, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    if (strstr(err.message, row->said) == NULL) fail_msg("said: %s", err.message);
    buffer_done(&text);
}

static void a_set_has_one_spelling(void **state)
{
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    struct policy_set *set = NULL;
    struct error err = {0};

    (void)state;
    payload_of(&defaults, &payload);
    assert_true(buffer_add_text(&payload, "\n", &err).ok);
    assert_false(policy_set_compile(buffer_bytes(&payload), &set, &err).ok);
    assert_non_null(strstr(err.message, "canonical"));
}

#define NETWORKS                                                                                                          \
    "[{\"cidr\":\"10.0.0.0/8\",\"facts\":{\"geo\":\"AE\"}},{\"cidr\":\"10.1.0.0/16\",\"facts\":{}},"                      \
    "{\"cidr\":\"10.1.2.3/32\",\"facts\":{}},{\"cidr\":\"10.1.128.0/17\",\"facts\":{}},{\"cidr\":\"::/0\",\"facts\":{}}," \
    "{\"cidr\":\"2001:db8::/32\",\"facts\":{}},{\"cidr\":\"2001:db8:0:8000::/49\",\"facts\":{}}]"

static const struct network_row {
    const char *name, *client, *network; /* network NULL: in none */
} network_rows[] = {
    {"the widest", "10.9.9.9", "10.0.0.0/8"},
    {"a narrower one", "10.1.9.9", "10.1.0.0/16"},
    {"one address", "10.1.2.3", "10.1.2.3/32"},
    {"the address after it", "10.1.2.4", "10.1.0.0/16"},
    {"an odd prefix", "10.1.128.1", "10.1.128.0/17"},
    {"outside", "11.0.0.1", NULL},
    {"loopback is not special", "127.0.0.1", NULL},
    {"any IPv6", "2002::1", "::/0"},
    {"an IPv6 network", "2001:db8::1", "2001:db8::/32"},
    {"an odd IPv6 prefix", "2001:db8:0:8001::1", "2001:db8:0:8000::/49"},
    {"IPv6 of the lower half", "0:0:1::5", "::/0"},
    {"IPv6 loopback", "::1", "::/0"},
    {"IPv4 over an IPv6 socket", "::ffff:10.1.2.3", "10.1.2.3/32"},
    {"IPv4 over an IPv6 socket is not IPv6", "::ffff:11.0.0.1", NULL},
};

static struct policy_set *set_with_networks(void)
{
    OWNED_JSON networks = policy_json(NETWORKS);
    const struct policy_set_parts parts = {.epoch = 3, .networks = networks};
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    struct policy_set *set = NULL;
    struct error err = {0};

    if (!policy_set_compose(&parts, &payload, &err).ok) fail_msg("%s", err.message);
    assert_true(policy_set_compile(buffer_bytes(&payload), &set, &err).ok);
    return set;
}

static void clients_are_in_networks(void **state)
{
    const struct network_row *row = *state;
    OWNED(policy_set) *set = set_with_networks();
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    const char *name = NULL;
    const bool is_v6 = strchr(row->client, ':') != NULL;

    assert_int_equal(inet_pton(is_v6 ? AF_INET6 : AF_INET, row->client, is_v6 ? (void *)&v6.sin6_addr : (void *)&v4.sin_addr), 1);
    const struct sockaddr *client = is_v6 ? (const struct sockaddr *)&v6 : (const struct sockaddr *)&v4;
    const struct policy_target *found = policy_set_client(set, &(struct policy_client){.address = client}, &name);
    assert_int_equal(found != NULL, row->network != NULL);
    if (found != NULL) assert_string_equal(name, row->network);
}

static struct policy_set *set_with_exceptions(const char *exceptions, struct error *err)
{
    OWNED_JSON list = policy_json(exceptions);
    const struct policy_set_parts parts = {.epoch = 3, .exceptions = list};
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    struct policy_set *set = NULL;

    if (!policy_set_compose(&parts, &payload, err).ok) return NULL;
    assert_true(policy_set_compile(buffer_bytes(&payload), &set, err).ok);
    return set;
}

#define EXCEPTION_OF(project, id)                                                                                    \
    "{\"apiVersion\":\"sijil.policy/v1\",\"kind\":\"ResidencyException\",\"id\":\"" id "\",\"type\":\"continuity\"," \
    "\"policy\":{\"id\":\"registry-default\",\"version\":1,\"digest\":\"sha256:"                                     \
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"},"                                           \
    "\"project\":\"" project "\",\"lifts\":[\"R-STORE-HOME\"],\"ops\":[\"ingest\"],\"targets\":[\"local/main\"],"    \
    "\"digests\":[\"sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\"],"                     \
    "\"not_before\":\"2026-11-01T00:00:00Z\",\"not_after\":\"2026-11-08T00:00:00Z\",\"evidence\":{},"                \
    "\"requested_by\":{\"iss\":\"i\",\"sub\":\"c\"},\"approvals\":[{\"iss\":\"i\",\"sub\":\"a\"},{\"iss\":\"i\",\"sub\":\"b\"}]"
#define PROJECT_1 "10000000-0000-4000-8000-000000000001"
#define PROJECT_2 "20000000-0000-4000-8000-000000000001"

/* In any order of the document, a request sees the exceptions of its own project and no others. */
static void exceptions_belong_to_their_project(void **state)
{
    static const struct {
        const char *project, *ids;
    } rows[] = {{PROJECT_1, "x2 "},
                {PROJECT_2, "x1 x3 "},
                {"30000000-0000-4000-8000-000000000001", ""},
                {"00000000-0000-0000-0000-000000000000", ""}};
    struct error err = {0};

    (void)state;
    OWNED(policy_set) *set = set_with_exceptions("[" EXCEPTION_OF(PROJECT_2, "x3") "}," EXCEPTION_OF(
                                                     PROJECT_1, "x2") ",\"uses_left\":0}," EXCEPTION_OF(PROJECT_2, "x1") "}]",
                                                 &err);
    if (set == NULL) fail_msg("%s", err.message);
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct buffer OWNED_BUFFER ids = BUFFER(64);
        struct uuid project;
        size_t count = 0;

        assert_true(uuid_parse(bytes_of_text(rows[i].project), &project));
        const struct policy_exception *const *found = policy_set_exceptions(set, &project, &count);
        for (size_t j = 0; j < count; j++) assert_true(buffer_format(&ids, &err, "%s ", found[j]->id).ok);
        assert_string_equal(buffer_text(&ids), rows[i].ids);
    }
}

/* The samples, and one of them again as `version`, with other words if it is a second policy. */
static struct result compose_with_another(int version, bool is_another, struct error *err)
{
    OWNED_JSON policies = policy_examples();
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    json_t *again = policy_example("health-ae"), *metadata = json_object_get(again, "metadata");

    assert_int_equal(json_object_set_new(metadata, "version", json_integer(version)), 0);
    if (is_another) assert_int_equal(json_object_set_new(metadata, "review_by", json_string("2099-01-01")), 0);
    assert_int_equal(json_array_append_new(policies, again), 0);
    const struct policy_set_parts parts = {.epoch = 3, .policies = policies};
    return policy_set_compose(&parts, &payload, err);
}

static void a_name_and_version_mean_one_policy(void **state)
{
    struct error err = {0};

    (void)state;
    assert_true(compose_with_another(4, true, &err).ok);
    assert_false(compose_with_another(3, true, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_string_equal(err.message, "policies: two of the name health-ae@3; give one of them another version");
    assert_false(compose_with_another(3, false, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_string_equal(err.message, "policies: a policy is there twice");
}

static void epochs_are_from_one_on(void **state)
{
    static const uint64_t epochs[] = {0, (uint64_t)INT64_MAX + 1, UINT64_MAX};
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(epochs); i++) {
        const struct policy_set_parts parts = {.epoch = epochs[i]};
        assert_false(policy_set_compose(&parts, &payload, &err).ok);
        assert_int_equal(err.kind, ERROR_INVALID);
    }
    assert_int_equal(payload.length, 0);
}

static const struct place_row {
    const char *name, *address, *listener, *authority, *place; /* place NULL: nothing is known */
} place_rows[] = {
    {"the authority alone", "192.0.2.1", "", DIGEST_A, "authority:" DIGEST_A},
    {"another authority", "192.0.2.1", "", DIGEST_B, NULL},
    {"the listener alone", "192.0.2.1", "ae-front", "", "listener:ae-front"},
    {"another listener", "192.0.2.1", "sa-front", "", NULL},
    {"a listener is less than a certificate", "192.0.2.1", "ae-front", DIGEST_A, "listener:ae-front"},
    {"a network is less than both", "10.1.2.3", "ae-front", DIGEST_A, "10.1.0.0/16"},
    {"a network of which nothing certain is said", "10.2.0.1", "ae-front", DIGEST_A, "10.2.0.0/16"},
    {"a network of the same assurance comes first", "10.3.0.1", "ae-front", "", "10.3.0.0/16"},
    {"a network that is proven", "10.4.0.1", "", DIGEST_A, "authority:" DIGEST_A},
    {"of two authorities the less certain one", "192.0.2.1", "", DIGEST_A " " DIGEST_C, "authority:" DIGEST_C},
    {"of two authorities the less certain one, first", "192.0.2.1", "", DIGEST_C " " DIGEST_A, "authority:" DIGEST_C},
    {"of two authorities the one that the set knows", "192.0.2.1", "", DIGEST_B " " DIGEST_A, "authority:" DIGEST_A},
};

static void the_lowest_assurance_wins(void **state)
{
    const struct place_row *row = *state;
    OWNED_JSON networks = policy_json(
        "[{\"cidr\":\"10.1.0.0/16\",\"facts\":{\"assurance\":1}},{\"cidr\":\"10.2.0.0/16\",\"facts\":{\"geo\":\"FR\"}},"
        "{\"cidr\":\"10.3.0.0/16\",\"facts\":{\"assurance\":2}},{\"cidr\":\"10.4.0.0/16\",\"facts\":{\"assurance\":4}},"
        "{\"facts\":{\"assurance\":2,\"geo\":\"AE\"},\"listener\":\"ae-front\"},"
        "{\"authority\":\"" DIGEST_C "\",\"facts\":{\"assurance\":1,\"geo\":\"FR\"}},"
        "{\"authority\":\"" DIGEST_A "\",\"facts\":{\"assurance\":3,\"geo\":\"AE\"}}]");
    const struct policy_set_parts parts = {.epoch = 3, .networks = networks};
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    struct sockaddr_in address = {.sin_family = AF_INET};
    OWNED(policy_set) *set = NULL;
    const char *name = NULL;
    struct error err = {0};

    assert_true(policy_set_compose(&parts, &payload, &err).ok);
    if (!policy_set_compile(buffer_bytes(&payload), &set, &err).ok) fail_msg("%s", err.message);
    assert_int_equal(inet_pton(AF_INET, row->address, &address.sin_addr), 1);
    const struct policy_client client = {
        .address = (const struct sockaddr *)&address, .authorities = row->authority, .listener = row->listener};
    const struct policy_target *found = policy_set_client(set, &client, &name);
    assert_int_equal(found != NULL, row->place != NULL);
    if (found != NULL) assert_string_equal(name, row->place);
}

static void nobody_is_in_no_network(void **state)
{
    OWNED(policy_set) *set = set_with_networks();
    const struct sockaddr local = {.sa_family = AF_UNIX};
    const char *name = NULL;

    (void)state;
    assert_null(policy_set_client(set, &(struct policy_client){.address = NULL}, &name));
    assert_null(policy_set_client(set, &(struct policy_client){.address = &local, .authorities = "", .listener = ""}, &name));
}

/* All steps of a set, and of one evaluation with it. */
static struct result compose_and_ask(void *parts, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    OWNED(policy_set) *set = NULL;
    struct label own = label_initial();
    const char *allowed[16];
    size_t count;
    struct {
        struct label label;
        bool is_labelled;
    } effective;

    TRY_UNTOUCHED(payload.length, policy_set_compose(parts, &payload, err));
    TRY_UNTOUCHED_BYTES(set, policy_set_compile(buffer_bytes(&payload), &set, err));
    const struct label_query query = {policy_set_documents(set), "health/ct", INT64_C(1797292800000000)};
    TRY_UNTOUCHED_BYTES(effective, policy_effective_label(&query, &own, &effective.label, &effective.is_labelled, err));
    const struct policy_facts facts = {
        .op = OP_INGEST, .scope = query.scope, .policy_epoch = 7, .label = &effective.label, .now_us = query.now_us};
    TRY_UNTOUCHED_BYTES(count, policy_set_allowed_regions(set, &facts, allowed, &count, err));
    return SUCCESS;
}

static void asking_survives_lack_of_memory(void **state)
{
    OWNED_JSON policies = policy_json("[]");
    OWNED_JSON world = policy_example("regions");
    OWNED_JSON regions = json_object();
    OWNED_JSON exceptions = policy_json("[" EXCEPTION_OF(PROJECT_1, "x1") "}]");
    struct policy_set_parts parts = {.epoch = 7,
                                     .policies = policies,
                                     .regions = regions,
                                     .exceptions = exceptions,
                                     .groups = json_object_get(world, "groups")};

    (void)state;
    json_t *one = json_object_get(json_object_get(world, "regions"), "azure/uaenorth");
    assert_int_equal(json_object_set(regions, "azure/uaenorth", one), 0);
    assert_int_equal(json_array_append_new(policies, policy_example("health-ae")), 0);
    fail_each(compose_and_ask, &parts, ERROR_NO_MEMORY, 100);
}

static struct result round_trip(void *officer, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    struct buffer OWNED_BUFFER envelope = BUFFER(POLICY_SET_ENVELOPE_MAX);
    OWNED(policy_set) *set = NULL;

    TRY(policy_default_set(&defaults, &payload, err));
    TRY(policy_set_sign(buffer_bytes(&payload), officer, &envelope, err));
    TRY_UNTOUCHED_BYTES(set, policy_set_read(buffer_bytes(&envelope), officer, &set, err));
    return SUCCESS;
}

static void sets_survive_lack_of_memory(void **state)
{
    OWNED(ecdsa_key) *officer = NULL;
    struct error made = {0};

    (void)state;
    assert_true(ecdsa_key_new(&officer, &made).ok);
    fail_each(round_trip, officer, ERROR_NO_MEMORY, 50);
}

int main(void)
{
    const struct CMUnitTest others[] = {
        cmocka_unit_test(a_set_survives_its_envelope),
        cmocka_unit_test(an_envelope_of_another_type_is_no_set),
        cmocka_unit_test(a_set_has_one_spelling),
        cmocka_unit_test(nobody_is_in_no_network),
        cmocka_unit_test(exceptions_belong_to_their_project),
        cmocka_unit_test(a_name_and_version_mean_one_policy),
        cmocka_unit_test(epochs_are_from_one_on),
        cmocka_unit_test(asking_survives_lack_of_memory),
        cmocka_unit_test(sets_survive_lack_of_memory),
    };

    return RUN_TABLE(set_rows, sets_are_refused) + RUN_TABLE(network_rows, clients_are_in_networks) +
           RUN_TABLE(place_rows, the_lowest_assurance_wins) + cmocka_run_group_tests_name("others", others, NULL, NULL) +
           policy_runner_cases();
}
