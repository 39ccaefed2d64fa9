/*
 * tests/unit/drawn_fixture.h -- random policy sets and requests. For one source file of a program only: it defines what it
 * declares.
 */
#pragma once

#include "tests/unit/decide_fixture.h"

#include <arpa/inet.h>

#include "policy/set_priv.h"

/* The same run each time, unless SIJIL_SEED sets another seed. */
static uint64_t seed_state;

static inline size_t draw(size_t count)
{
    seed_state = seed_state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(seed_state >> 33) % count;
}
#define DRAWN(list) ((list)[draw(COUNT(list))])

static const char *const regions[] = {"azure/uaenorth", "local/main", "aws/me-central-1", "local/gone"};
static const char *const clients[] = {"10.1.2.3", "10.2.0.1", "192.0.2.7", "127.0.0.1"};
static const char *const scopes[] = {"[\"**\"]", "[\"acme/models/**\"]", "[\"acme/health/**\",\"acme/health\"]", "[\"acme/*\"]"};
static const char *const classes[] = {"open", "confidential", "sensitive", "secret"};
static const char *const effects[] = {"require", "deny"};
static const char *const operations[] = {"ingest", "read", "metadata", "log", "mount"};
static const char *const targets[] = {"{\"geo_within\":[\"AE\"]}", "{\"min_assurance\":2}",
                                      "{\"recipient_in\":[\"same-controller\"]}",
                                      "{\"geo_within\":[\"AE/DU\"],\"min_assurance\":1}"};
static const char *const starts[] = {"2026-01-01T00:00:00Z", "2026-11-20T10:39:46.001Z", "2027-01-01T00:00:00Z"};

/* A random policy: a floor, some rules, permits up to some class; in force now, soon, or next year. */
static inline json_t *draw_policy(unsigned number)
{
    char text[2048];
    const int length = snprintf(
        text, sizeof text,
        "{\"apiVersion\":\"sijil.policy/v1\",\"kind\":\"ResidencyPolicy\",\"metadata\":{\"id\":\"p-%u\",\"version\":1,\"scope\":%s,"
        "\"effective_from\":\"%s\",\"review_by\":\"2027-12-31\"},\"closed\":%s,\"labels\":{\"class\":\"%s\"},"
        "\"exception_types\":{\"break-glass\":{\"lifts\":[\"R-%u\"],\"required_evidence\":[\"ref\"],\"max_days\":30,\"approvals\":2,\"adds\":{\"notify\":[\"dpo\",\"visitors\"]}}},\"rules\":["
        "{\"id\":\"N-%u\",\"effect\":\"oblige\",\"ops\":[\"%s\"],\"oblige\":{\"notify\":[\"officer-%u\",\"dpo\"]}},"
        "{\"id\":\"R-%u\",\"effect\":\"%s\",\"ops\":[\"%s\",\"%s\"],\"target\":%s,\"message\":\"No.\"},"
        "{\"id\":\"P-%u\",\"effect\":\"permit\",\"ops\":[\"ingest\",\"read\",\"metadata\",\"log\",\"mount\"],"
        "\"when\":{\"class_at_most\":\"%s\"}}]}",
        number, draw(2) > 0 ? scopes[0] : DRAWN(scopes), draw(3) > 0 ? starts[0] : DRAWN(starts), draw(3) == 0 ? "false" : "true",
        draw(4) > 0 ? "open" : DRAWN(classes), number, number, DRAWN(operations), number, number, DRAWN(effects),
        operations[draw(2)], operations[2 + draw(3)], DRAWN(targets), number, draw(4) > 0 ? "secret" : DRAWN(classes));

    assert_true(length > 0 && (size_t)length < sizeof text);
    return policy_json(text);
}

#define NETWORKS_DRAWN                                                                                             \
    "[{\"cidr\":\"10.1.0.0/16\",\"facts\":{\"geo\":\"AE/DU\",\"assurance\":2,\"recipient\":\"same-controller\"}}," \
    "{\"cidr\":\"10.0.0.0/8\",\"facts\":{\"geo\":\"AE\",\"assurance\":1}}]"
#define REGIONS_DRAWN                                                                          \
    "{\"azure/uaenorth\":{\"geo\":\"AE/DU\",\"assurance\":3},\"local/main\":{\"geo\":\"AE\"}," \
    "\"aws/me-central-1\":{\"geo\":\"SA\",\"assurance\":1}}"

static inline struct policy_set *compose(const struct policy_set_parts *parts)
{
    struct buffer OWNED_BUFFER payload = BUFFER(POLICY_SET_BYTES_MAX);
    struct policy_set *set = NULL;
    struct error err = {0};

    if (!policy_set_compose(parts, &payload, &err).ok || !policy_set_compile(buffer_bytes(&payload), &set, &err).ok)
        fail_msg("%s", err.message);
    return set;
}

/* Lifts the rule of one policy for DIGEST, for reads from one network or pushes to one region. */
static inline json_t *exception_of(const struct policy_set *set, size_t policy)
{
    const struct policy_document *document = set->documents->documents[policy];
    char text[2048], project[UUID_TEXT_SIZE];
    const struct uuid models = id_of('m');

    uuid_format(&models, project);
    (void)snprintf(
        text, sizeof text,
        "{\"apiVersion\":\"sijil.policy/v1\",\"kind\":\"ResidencyException\",\"id\":\"x-%zu\",\"type\":\"break-glass\","
        "\"policy\":{\"id\":\"%s\",\"version\":1,\"digest\":\"%s\"},\"project\":\"%s\",\"lifts\":[\"R-%.1s\"],"
        "\"ops\":[\"ingest\",\"read\",\"metadata\",\"log\"],\"targets\":[\"10.1.0.0/16\",\"local/main\",\"aws/me-central-1\"],"
        "\"digests\":[\"" DIGEST "\"],\"not_before\":\"2026-11-01T00:00:00Z\",\"not_after\":\"2026-11-20T10:39:46.500Z\","
        "\"requested_by\":{\"iss\":\"https://a.example\",\"sub\":\"r\"},\"approvals\":[{\"iss\":\"https://a.example\",\"sub\":\"o\"},"
        "{\"iss\":\"https://a.example\",\"sub\":\"p\"}],\"evidence\":{\"ref\":\"1\"}%s}",
        policy, document->id, document->digest, project, document->id + 2, draw(2) == 0 ? ",\"uses_left\":2" : "");
    return policy_json(text);
}

static inline struct policy_set *draw_set(uint64_t epoch)
{
    OWNED_JSON networks = policy_json(NETWORKS_DRAWN);
    OWNED_JSON places = policy_json(REGIONS_DRAWN);
    OWNED_JSON policies = json_array();
    OWNED_JSON exceptions = json_array();
    const size_t count = 1 + draw(3);

    for (unsigned i = 0; i < count; i++) assert_int_equal(json_array_append_new(policies, draw_policy(i)), 0);
    struct policy_set_parts parts = {.epoch = epoch, .policies = policies, .regions = places, .networks = networks};
    OWNED(policy_set) *bare = compose(&parts);
    if (draw(2) == 0) assert_int_equal(json_array_append_new(exceptions, exception_of(bare, draw(bare->documents->count))), 0);
    parts.exceptions = exceptions;
    return compose(&parts);
}

static const struct {
    enum action action;
    const char *resource;
} asked[] = {
    {ACTION_BLOB_READ, "acme/models/digits"},
    {ACTION_MANIFEST_READ, "acme/health/scans"},
    {ACTION_MANIFEST_STAT, "acme/models/top"},
    {ACTION_MANIFEST_PUSH, "acme/models/digits"},
    {ACTION_MANIFEST_PUSH, "acme/lost/a"},
    {ACTION_TAG_LIST, "acme/models/digits"},
    {ACTION_UPLOAD_COMMIT, "acme/models/top"},
    {ACTION_BLOB_MOUNT, "acme/models/digits"},
    {ACTION_BLOB_READ, "acme/none/digits"},
    {ACTION_BLOB_READ, "globex/models/digits"},
    {ACTION_PROJECT_CREATE, "acme/fresh"},
    {ACTION_PROJECT_LABEL, "acme"},
    {ACTION_PROJECT_LABEL, "acme/models"},
    {ACTION_REPOSITORY_LABEL, "acme/models/top"},
    {ACTION_AUDIT_READ, "acme"},
    {ACTION_BLOB_READ, "acme/models/\"odd#name\\"},
    {ACTION_ROBOT_READ, ""},
};

static const char *const details[] = {"", "v1", DIGEST, SHA_OF("76543210")};
static struct asked_label labels[3];

struct drawn {
    struct principal principal;
    struct decision_request request;
    struct sockaddr_in client;
    struct decision_context context;
};

static inline void draw_pair(struct action_pair *pair)
{
    const size_t place = draw(COUNT(asked));

    pair->action = asked[place].action;
    tenancy_resolve(&snapshot.tenancy, asked[place].resource, &pair->resource);
    (void)snprintf(pair->resource.detail, sizeof pair->resource.detail, "%s", DRAWN(details));
    if (draw(3) == 0) (void)snprintf(pair->resource.region, sizeof pair->resource.region, "%s", DRAWN(regions));
}

static inline const char *organisation_of(const struct action_pair *pair, size_t *length)
{
    *length = strcspn(pair->resource.name, "/");
    return pair->resource.name;
}

/* Pairs of a request are of one organisation. */
static inline bool are_of_one(const struct action_pair *a, const struct action_pair *b)
{
    size_t first = 0, second = 0;
    const char *name = organisation_of(a, &first), *other = organisation_of(b, &second);

    return first == second && strncmp(name, other, first) == 0;
}

static inline void draw_request(struct drawn *drawn)
{
    static const char robots[] = "ppppppppppcczooo-?";
    const char robot = robots[draw(sizeof robots - 1)];
    struct decision_request *request = &drawn->request;

    drawn->principal = (struct principal){.kind = robot == '-' ? PRINCIPAL_NONE : PRINCIPAL_ROBOT, .id = id_of(robot)};
    drawn->client = (struct sockaddr_in){.sin_family = AF_INET};
    assert_int_equal(inet_pton(AF_INET, DRAWN(clients), &drawn->client.sin_addr), 1);
    *request = (struct decision_request){
        .principal = &drawn->principal, .pair_count = 1 + (draw(4) == 0), .now_ms = NOW_MS + (int64_t)draw(1000) - 500};
    for (size_t i = 0; i < request->pair_count; i++) do
            draw_pair(&request->pairs[i]);
        while (i > 0 && !are_of_one(&request->pairs[0], &request->pairs[i]));
    if (draw(10) > 0) request->client.address = (const struct sockaddr *)&drawn->client;
    for (size_t i = 0; i < request->pair_count; i++)
        if (request->pairs[i].action == ACTION_PROJECT_LABEL || request->pairs[i].action == ACTION_REPOSITORY_LABEL ||
            draw(3) == 0)
            request->asked = &labels[draw(COUNT(labels))];
    drawn->context = (struct decision_context){.snapshot = &snapshot,
                                               .request = request,
                                               .is_stale = draw(50) == 0,
                                               .metadata_region = draw(2) == 0 ? "" : "aws/me-central-1"};
}
