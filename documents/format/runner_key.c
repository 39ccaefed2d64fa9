#include "documents/format/runner_key.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "documents/format/document_priv.h"

#define NAME_LETTERS      "abcdefghijklmnopqrstuvwxyz0123456789-_.@/"
#define PLACE_LETTERS     "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-"
#define JURISDICTIONS_MAX 16
#define JURISDICTION_MAX  32
#define DEVICES_MAX       64
#define NODES_MAX         32
#define ATTESTED_BY_MAX   127

/* The members of a body, as json_unpack_ex() returns them. */
struct body {
    const char *runner, *point, *pool, *region, *isolation, *since;
    json_int_t assurance, devices;
    const json_t *jurisdictions, *nodes, *attestation;
};

static struct result unpack(const struct document *document, struct body *body, struct error *err)
{
    return document_unpack(json_object_get(document->json, "body"), "the body of a runner", err,
                           "{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:o, s?:o, s?:o, s?:s}", "runner", &body->runner, "public_key",
                           &body->point, "pool", &body->pool, "region", &body->region, "isolation", &body->isolation, "assurance",
                           &body->assurance, "devices", &body->devices, "jurisdictions", &body->jurisdictions, "nodes",
                           &body->nodes, "attestation", &body->attestation, "since", &body->since);
}

static bool copy_name(const char *text, char out[RUNNER_NAME_SIZE])
{
    const size_t length = strlen(text);

    if (length == 0 || length >= RUNNER_NAME_SIZE || !text_consists_of(bytes_of_text(text), NAME_LETTERS)) return false;
    memcpy(out, text, length + 1);
    return true;
}

static bool are_jurisdictions(const json_t *list)
{
    const size_t count = json_array_size(list);

    if (!json_is_array(list) || count == 0 || count > JURISDICTIONS_MAX) return false;
    for (size_t i = 0; i < count; i++) {
        const char *jurisdiction = json_string_value(json_array_get(list, i));
        if (jurisdiction == NULL || jurisdiction[0] < 'A' || jurisdiction[0] > 'Z' || strlen(jurisdiction) > JURISDICTION_MAX ||
            !text_consists_of(bytes_of_text(jurisdiction), PLACE_LETTERS))
            return false;
    }
    return true;
}

/* A node is named once, so that one more name is one more machine. */
static bool are_nodes(const json_t *list)
{
    const size_t count = json_array_size(list);
    struct uuid nodes[NODES_MAX];

    if (!json_is_array(list) || count == 0 || count > NODES_MAX) return false;
    for (size_t i = 0; i < count; i++) {
        const char *node = json_string_value(json_array_get(list, i));
        if (node == NULL || !uuid_parse(bytes_of_text(node), &nodes[i]) || uuid_is_nil(&nodes[i])) return false;
        for (size_t j = 0; j < i; j++)
            if (uuid_equal(&nodes[i], &nodes[j])) return false;
    }
    return true;
}

static bool is_isolation(const char *name)
{
    return strcmp(name, "rlimits") == 0 || strcmp(name, "cgroup-v1") == 0 || strcmp(name, "cgroup-v2") == 0;
}

/* Each block has one spelling, so that who signs sees what counts. */
static bool read_network(const char *text, struct network *network)
{
    char again[NETWORK_TEXT_SIZE];

    if (text == NULL || network_read(bytes_of_text(text), network) != NETWORK_GOOD) return false;
    network_write(network, again);
    return strcmp(again, text) == 0;
}

/* Of a whole country or of all addresses it ties the key to no place. */
static bool is_of_a_site(const struct network *network)
{
    return network->bits >= (network_is_ipv4(network) ? 96 + RUNNER_NETWORK_IPV4_BITS : RUNNER_NETWORK_IPV6_BITS);
}

static struct result read_networks(const json_t *list, struct networks *networks, struct error *err)
{
    const size_t count = json_array_size(list);

    if (!json_is_array(list) || count == 0 || count > RUNNER_NETWORKS_MAX)
        return failure(err, ERROR_INVALID, "attestation.networks: 1 to %d networks that the runner calls from",
                       RUNNER_NETWORKS_MAX);
    for (size_t i = 0; i < count; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        if (!read_network(text, &networks->each[i]))
            return failure(err, ERROR_INVALID, "attestation.networks: %.50s is no block such as 10.1.7.0/28",
                           text == NULL ? "" : text);
        if (!is_of_a_site(&networks->each[i]))
            return failure(err, ERROR_INVALID, "attestation.networks: %s is wider than /%d of IPv4 or /%d of IPv6", text,
                           RUNNER_NETWORK_IPV4_BITS, RUNNER_NETWORK_IPV6_BITS);
    }
    networks->count = count;
    return SUCCESS;
}

static bool is_said_by(const char *by)
{
    const size_t length = by == NULL ? 0 : strlen(by);

    for (size_t i = 0; i < length; i++)
        if (by[i] < 0x20 || by[i] > 0x7e) return false;
    return length > 0 && length <= ATTESTED_BY_MAX;
}

static struct result read_attestation(const struct body *body, struct runner_key *key, struct error *err)
{
    const json_t *attestation = body->attestation;
    const char *evidence = json_text_of(attestation, "evidence");
    struct digest digest;

    if (attestation == NULL) return SUCCESS;
    if (json_object_size(attestation) != 3 || !is_said_by(json_text_of(attestation, "by")))
        return failure(
            err, ERROR_INVALID,
            "attestation: \"by\" (1 to %d visible characters: who looked at the machine, and how), \"evidence\" and \"networks\"",
            ATTESTED_BY_MAX);
    if (evidence == NULL || !digest_parse(bytes_of_text(evidence), &digest, err).ok)
        return failure(err, ERROR_INVALID, "attestation.evidence: sha256: and the digest of a file");
    TRY(read_networks(json_object_get(attestation, "networks"), &key->networks, err));
    key->attestation = attestation;
    return SUCCESS;
}

static struct result read_assurance(const struct body *body, struct runner_key *key, struct error *err)
{
    if (body->attestation != NULL && body->assurance != RUNNER_ASSURANCE_ATTESTED)
        return failure(err, ERROR_INVALID, "assurance: %d for an attested runner", RUNNER_ASSURANCE_ATTESTED);
    if (body->attestation == NULL && (body->assurance < 1 || body->assurance > RUNNER_ASSURANCE_MAX))
        return failure(err, ERROR_INVALID, "assurance: 1 to %d for an enrolled runner; %d needs an attestation",
                       RUNNER_ASSURANCE_MAX, RUNNER_ASSURANCE_ATTESTED);
    key->assurance = body->assurance;
    return read_attestation(body, key, err);
}

static struct result read_jurisdiction(const struct body *body, struct runner_key *key, struct error *err)
{
    if (!copy_name(body->pool, key->pool) || !copy_name(body->region, key->region))
        return failure(err, ERROR_INVALID, "pool, region: 1 to %d lower-case letters, digits and -_.@/", RUNNER_NAME_SIZE - 1);
    if (!is_isolation(body->isolation) || !copy_name(body->isolation, key->isolation))
        return failure(err, ERROR_INVALID, "isolation: rlimits, cgroup-v1 or cgroup-v2");
    if (!are_jurisdictions(body->jurisdictions))
        return failure(err, ERROR_INVALID, "jurisdictions: 1 to %d names such as AE or AE-FED", JURISDICTIONS_MAX);
    if (body->devices < 0 || body->devices > DEVICES_MAX) return failure(err, ERROR_INVALID, "devices: 0 to %d", DEVICES_MAX);
    if (body->nodes != NULL && !are_nodes(body->nodes))
        return failure(err, ERROR_INVALID, "nodes: 1 to %d different UIDs of nodes, in lower case", NODES_MAX);
    key->jurisdictions = body->jurisdictions;
    key->nodes = body->nodes;
    key->devices = body->devices;
    return read_assurance(body, key, err);
}

static struct result read_since(const struct document *document, const struct body *body, struct runner_key *key,
                                struct error *err)
{
    if ((body->since != NULL) != document->is_withdrawn)
        return failure(err, ERROR_INVALID, "since: a withdrawal must have it, and no other document may");
    if (body->since == NULL || clock_parse(bytes_of_text(body->since), &key->since_ms)) return SUCCESS;
    return failure(err, ERROR_INVALID, "since: a time in RFC 3339");
}

struct result runner_key_read(const struct document *document, struct runner_key *key_out, struct error *err)
{
    struct runner_key key = {0};
    struct body body = {0};

    TRY(unpack(document, &body, err));
    if (strchr(document->scope, '/') != NULL)
        return failure(err, ERROR_INVALID, "scope: a runner belongs to the registry or to an organisation");
    if (!uuid_parse(bytes_of_text(body.runner), &key.runner) || uuid_is_nil(&key.runner))
        return failure(err, ERROR_INVALID, "runner: a UUID in lower case");
    TRY(document_read_point(document, body.point, key.point, err));
    TRY(read_jurisdiction(&body, &key, err));
    TRY(read_since(document, &body, &key, err));
    TRY(document_check_life(document, err));
    *key_out = key;
    return SUCCESS;
}

void runner_key_place(const struct runner_key *key, char place_out[RUNNER_PLACE_SIZE])
{
    (void)snprintf(place_out, RUNNER_PLACE_SIZE, "%s%s", key->attestation == NULL ? "" : RUNNER_ATTESTED_MARK, key->region);
}

/*
 * One person enrols a runner and another confirms it. The root alone may do both, since it appoints the approvers; but that somebody has looked at a
 * machine two persons say.
 */
static struct result count_persons(const struct document *document, const struct document_trust *trust,
                                   const struct runner_key *key, unsigned *persons_out, struct error *err)
{
    static const uint8_t nobody[DOCUMENT_DIGEST_SIZE];
    const struct document_own own = {key->point, nobody};
    bool has_root = false;

    if (memcmp(key->point, trust->root, sizeof trust->root) == 0)
        return failure(err, ERROR_DENIED, "the key of a runner must not be the root's");
    TRY(document_is_signed_by(document, trust->root, &has_root, err));
    TRY(document_count_persons(document, trust, &own, persons_out, err));
    if (has_root && document_root_is_one(trust) && key->attestation == NULL) *persons_out = RUNNER_APPROVERS;
    return SUCCESS;
}

struct result document_check_runner(const struct document *document, const struct document_trust *trust, struct error *err)
{
    struct runner_key key;
    bool has_runner = false;
    unsigned persons = 0;

    TRY(runner_key_read(document, &key, err));
    TRY(document_check_time(document, trust->now_ms, err));
    TRY(document_is_signed_by(document, key.point, &has_runner, err));
    TRY(count_persons(document, trust, &key, &persons, err));
    if (document->is_withdrawn) {
        if (persons > 0) return SUCCESS;
        return failure(err, ERROR_DENIED, "the withdrawal of a runner needs the signature of an approver or of the root");
    }
    if (!has_runner) return failure(err, ERROR_DENIED, "the runner's own key has not signed the document");
    if (persons >= RUNNER_APPROVERS) return SUCCESS;
    return failure(err, ERROR_DENIED, "the signatures of two %s are needed, and there are %u",
                   key.attestation == NULL ? "approvers or of the root" : "persons who approve", persons);
}
