/* Invitations, the files of codes and pinned keys: what is accepted, and what follows from it. */
#include "tests/support/unit.h"

#include <stdio.h>

#include "base/json.h"
#include "base/text.h"
#include "documents/format/runner_code_file.h"

#define NOW_MS   INT64_C(1795000000000)
#define HOUR_MS  INT64_C(3600000)
#define AUDIENCE "sijil.example/audit"
#define LOG_KEY  "sijil.example/audit+747f8459+ARMH5uQD5Cv8q1MzNnSd8FiJVPR2MoP2kbcukPYKg7ll"
#define RUNNER   "7b5a1b9e-55a0-4f0e-9d55-0f4d3c1e2b22"

enum { ROOT, APPROVER, REVOKED, STRANGER, OWN, KEYS };
static struct ecdsa_key *keys[KEYS];

/* ---- invitations ---- */

static const struct row {
    const char *name, *member, *value; /* as JSON; NULL removes it */
    const char *says;                  /* NULL: it is accepted */
} rows[] = {
    {"as it is", "devices", "0", NULL},
    {"of an organisation", "scope", "\"acme\"", NULL},
    {"of a project", "scope", "\"acme/models\"", "to the registry or to an organisation"},
    {"another schema", "schema", "\"sijil.runner-invitation/v2\"", "schema"},
    {"a member that is not known", "more", "1", "an invitation"},
    {"no pool", "pool", NULL, "an invitation"},
    {"a pool with a blank", "pool", "\"a b\"", "pool, region: "},
    {"no place", "jurisdictions", "[]", "jurisdictions: "},
    {"nodes of a cluster", "nodes", "[\"0b5a1b9e-55a0-4f0e-9d55-0f4d3c1e2b22\"]", NULL},
    {"a node by its name", "nodes", "[\"gpu-1\"]", "nodes: "},
    {"an assurance of 4", "assurance", "4", "assurance: "},
    {"a text for a number", "devices", "\"1\"", "an invitation"},
    {"65 devices", "devices", "65", "devices: "},
    {"an unknown isolation", "isolation", "\"vm\"", "isolation: "},
    {"a runner that is no UUID", "runner", "\"gpu-1\"", "runner: "},
    {"the runner of zeros", "runner", "\"00000000-0000-0000-0000-000000000000\"", "runner: "},
    {"no audience", "audience", "\"\"", "audience: "},
    {"a day and a millisecond", "expires", "\"2026-11-19T11:06:40.001Z\"", "expires: at most 24 hours"},
    {"a whole day", "expires", "\"2026-11-19T11:06:40.000Z\"", NULL},
    {"over before it begins", "expires", "\"2026-11-18T11:06:40.000Z\"", "expires: "},
    {"no time", "issued_at", "\"yesterday\"", "times in RFC 3339"},
    {"a runner for three years", "runner_expires", "\"2029-11-18T12:26:40.000Z\"", "a key expires, within"},
    {"a runner that is over", "runner_expires", "\"2026-11-18T11:06:39.000Z\"", "expires: "},
};

static struct runner_invitation_parts parts_of(const json_t *places)
{
    struct runner_invitation_parts parts = {.audience = AUDIENCE,
                                            .scope = "",
                                            .pool = "gpu",
                                            .region = "local/dxb",
                                            .isolation = "cgroup-v2",
                                            .jurisdictions = places,
                                            .devices = 2,
                                            .assurance = 3,
                                            .issued_ms = NOW_MS,
                                            .expires_ms = NOW_MS + HOUR_MS,
                                            .runner_expires_ms = NOW_MS + 24 * 300 * HOUR_MS};

    assert_true(uuid_parse(bytes_of_text(RUNNER), &parts.runner));
    return parts;
}

static void write(const struct ecdsa_key *key, struct buffer *envelope)
{
    OWNED_JSON places = json_pack("[s]", "AE");
    const struct runner_invitation_parts parts = parts_of(places);
    struct error err = {0};

    must(runner_invitation_write(&parts, key, envelope, &err), &err);
}

/* The payload with one member changed, signed again. */
static void write_changed(const struct row *row, struct buffer *envelope)
{
    struct buffer OWNED_BUFFER whole = BUFFER(RUNNER_INVITATION_MAX), payload = BUFFER(RUNNER_INVITATION_MAX);
    OWNED(runner_invitation) *invitation = NULL;
    struct error err = {0};

    write(keys[APPROVER], &whole);
    must(runner_invitation_read(buffer_bytes(&whole), &invitation, &err), &err);
    if (row->value == NULL) assert_int_equal(json_object_del(invitation->json, row->member), 0);
    else assert_int_equal(json_object_set_new(invitation->json, row->member, json_loads(row->value, JSON_DECODE_ANY, NULL)), 0);
    must(json_write_canonical(&payload, invitation->json, &err), &err);
    const struct ecdsa_key *signer = keys[APPROVER];
    must(dsse_write(RUNNER_INVITATION_TYPE, buffer_bytes(&payload), &signer, 1, envelope, &err), &err);
}

static void members_are_checked(void **state)
{
    const struct row *row = *state;
    struct buffer OWNED_BUFFER envelope = BUFFER(RUNNER_INVITATION_MAX);
    OWNED(runner_invitation) *invitation = NULL;
    struct error err = {0};

    write_changed(row, &envelope);
    const bool ok = runner_invitation_read(buffer_bytes(&envelope), &invitation, &err).ok;
    if (ok != (row->says == NULL)) fail_msg("%s", ok ? "it is accepted" : err.message);
    if (!ok && strstr(err.message, row->says) == NULL) fail_msg("%s", err.message);
    assert_true(ok || (invitation == NULL && err.kind == ERROR_INVALID));
}

static void another_envelope_is_no_invitation(void **state)
{
    struct buffer OWNED_BUFFER whole = BUFFER(RUNNER_INVITATION_MAX), other = BUFFER(RUNNER_INVITATION_MAX);
    struct buffer OWNED_BUFFER twice = BUFFER(RUNNER_INVITATION_MAX);
    const struct ecdsa_key *const both[] = {keys[ROOT], keys[APPROVER]};
    OWNED(runner_invitation) *invitation = NULL, *none = NULL;
    struct error err = {0};

    (void)state;
    write(keys[ROOT], &whole);
    must(runner_invitation_read(buffer_bytes(&whole), &invitation, &err), &err);
    const struct bytes payload = buffer_bytes(&invitation->dsse->payload);
    must(dsse_write("application/vnd.sijil.runner.v1+json", payload, both, 1, &other, &err), &err);
    assert_false(runner_invitation_read(buffer_bytes(&other), &none, &err).ok);
    must(dsse_write(RUNNER_INVITATION_TYPE, payload, both, 2, &twice, &err), &err);
    assert_false(runner_invitation_read(buffer_bytes(&twice), &none, &err).ok);
    assert_null(none);
}

static struct document_trust trust_of(void)
{
    struct document_trust trust = {.now_ms = NOW_MS};

    ecdsa_key_public(keys[ROOT], trust.root);
    ecdsa_key_public(keys[REVOKED], trust.approvers[0].point);
    ecdsa_key_public(keys[APPROVER], trust.approvers[1].point);
    trust.approvers[0].expires_ms = trust.approvers[1].expires_ms = NOW_MS + HOUR_MS;
    trust.approvers[0].is_revoked = true;
    return trust;
}

static void only_keys_that_approve_invite(void **state)
{
    static const bool may[KEYS] = {[ROOT] = true, [APPROVER] = true};
    const struct document_trust trust = trust_of();

    (void)state;
    for (int i = 0; i < KEYS; i++) {
        struct buffer OWNED_BUFFER envelope = BUFFER(RUNNER_INVITATION_MAX);
        OWNED(runner_invitation) *invitation = NULL;
        uint8_t signer[ECDSA_PUBLIC_SIZE], own[ECDSA_PUBLIC_SIZE];
        struct error err = {0};
        write(keys[i], &envelope);
        must(runner_invitation_read(buffer_bytes(&envelope), &invitation, &err), &err);
        assert_int_equal(runner_invitation_signer(invitation, &trust, signer, &err).ok, may[i]);
        assert_int_equal(err.kind, may[i] ? ERROR_NONE : ERROR_DENIED);
        ecdsa_key_public(keys[i], own);
        if (may[i]) assert_memory_equal(signer, own, sizeof own);
    }
}

static void the_document_has_nothing_that_the_machine_chose(void **state)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(RUNNER_INVITATION_MAX), payload = BUFFER(RUNNER_INVITATION_MAX);
    OWNED(runner_invitation) *invitation = NULL;
    OWNED(document) *document = NULL;
    uint8_t point[ECDSA_PUBLIC_SIZE];
    struct runner_key key;
    struct error err = {0};

    (void)state;
    write(keys[APPROVER], &envelope);
    must(runner_invitation_read(buffer_bytes(&envelope), &invitation, &err), &err);
    ecdsa_key_public(keys[OWN], point);
    must(runner_invitation_document(invitation, point, &payload, &err), &err);
    must(document_read_payload(DOCUMENT_RUNNER, buffer_bytes(&payload), &document, &err), &err);
    must(runner_key_read(document, &key, &err), &err);
    assert_memory_equal(key.point, point, sizeof point);
    assert_true(uuid_equal(&key.runner, &invitation->runner));
    assert_string_equal(key.pool, "gpu");
    assert_string_equal(key.region, "local/dxb");
    assert_string_equal(key.isolation, "cgroup-v2");
    assert_string_equal(json_string_value(json_array_get(key.jurisdictions, 0)), "AE");
    assert_true(key.devices == 2 && key.assurance == 3 && document->version == 1 && !document->is_withdrawn);
    assert_true(document->effective_ms == NOW_MS && document->expires_ms == NOW_MS + 24 * 300 * HOUR_MS);
}

/* ---- the file of a code ---- */

static struct registry_pins pins_of(bool has_ca)
{
    struct registry_pins pins = {.host = "registry.example:8443", .audience = AUDIENCE, .log_key = LOG_KEY, .has_ca = has_ca};

    ecdsa_key_public(keys[STRANGER], pins.signer);
    ecdsa_key_public(keys[ROOT], pins.root);
    return pins;
}

static void write_file(bool has_ca, struct buffer *text)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(RUNNER_INVITATION_MAX);
    const struct registry_pins pins = pins_of(has_ca);
    struct uuid runner;
    char code[RUNNER_CODE_SIZE];
    struct error err = {0};

    write(keys[APPROVER], &envelope);
    assert_true(uuid_parse(bytes_of_text(RUNNER), &runner));
    const struct runner_code made = runner_code_new(&runner);
    runner_code_write(&made, code);
    const struct runner_code_parts parts = {code, buffer_bytes(&envelope), &pins, bytes_of_text(has_ca ? "certificates" : "")};
    must(runner_code_file_write(&parts, text, &err), &err);
}

static void a_file_is_read_as_it_was_written(void **state)
{
    (void)state;
    for (int has_ca = 0; has_ca < 2; has_ca++) {
        struct buffer OWNED_BUFFER text = BUFFER(RUNNER_CODE_FILE_MAX);
        const struct registry_pins pins = pins_of(has_ca == 1);
        OWNED(runner_code_file) *file = NULL;
        struct error err = {0};
        write_file(has_ca == 1, &text);
        must(runner_code_file_read(buffer_bytes(&text), &file, &err), &err);
        assert_string_equal(file->registry.host, pins.host);
        assert_string_equal(file->registry.log_key, LOG_KEY);
        assert_memory_equal(file->registry.signer, pins.signer, sizeof pins.signer);
        assert_memory_equal(file->registry.root, pins.root, sizeof pins.root);
        assert_int_equal(file->registry.has_ca, has_ca == 1);
        assert_int_equal(file->ca.length, has_ca == 1 ? strlen("certificates") : 0);
        assert_true(uuid_equal(&file->code.runner, &file->invitation->runner));
    }
}

/* Member by path, in the file of a code. */
static const struct file_row {
    const char *name, *object, *member, *value, *says;
} file_rows[] = {
    {"another schema", NULL, "schema", "\"x\"", "schema"},
    {"a member that is not known", NULL, "more", "1", "the file of a code"},
    {"no code", NULL, "code", NULL, "the file of a code"},
    {"a code that is none", NULL, "code", "\"sjr_\"", "code: sjr_"},
    {"the code of another runner", NULL, "code", "\"sjr_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"",
     "different runners"},
    {"no invitation", NULL, "invitation", "{}", ""},
    {"an invitation that is a text", NULL, "invitation", "\"x\"", ""},
    {"certificates without the member of the registry", NULL, "ca", "\"x\"", "ca: "},
    {"a registry without certificates", "registry", "ca_file", "\"ca.pem\"", "ca: "},
    {"another file", "registry", "ca_file", "\"/etc/passwd\"", "ca_file: ca.pem"},
    {"another log", "registry", "audience", "\"other\"", "log_key: "},
    {"a log key that is none", "registry", "log_key", "\"x\"", ""},
    {"an empty log key", "registry", "log_key", "\"\"", "log_key: "},
    {"plain HTTP", "registry", "url", "\"http://registry.example\"", "url: "},
    {"a URL with a path", "registry", "url", "\"https://registry.example/x\"", "url: "},
    {"a URL with a user", "registry", "url", "\"https://me@registry.example\"", "url: "},
    {"a port that is none", "registry", "url", "\"https://registry.example:0\"", "url: "},
    {"a port that is too high", "registry", "url", "\"https://registry.example:65536\"", "url: "},
    {"no host", "registry", "url", "\"https://\"", "url: "},
    {"a bracket alone", "registry", "url", "\"https://[::1\"", "url: "},
    {"no signer", "registry", "signer", NULL, "signer"},
    {"a signer that is no point", "registry", "signer", "\"AAAA\"", "signer: "},
    {"a root off the curve", "registry", "root",
     "\"BAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\"", ""},
    {"another schema of the registry", "registry", "schema", "\"x\"", "schema: "},
};

static void files_are_checked(void **state)
{
    const struct file_row *row = *state;
    struct buffer OWNED_BUFFER text = BUFFER(RUNNER_CODE_FILE_MAX), changed = BUFFER(RUNNER_CODE_FILE_MAX);
    OWNED(runner_code_file) *file = NULL;
    OWNED_JSON json = NULL;
    struct error err = {0};

    write_file(false, &text);
    must(json_read(buffer_bytes(&text), RUNNER_CODE_FILE_MAX, &json, &err), &err);
    json_t *object = row->object == NULL ? json : json_object_get(json, row->object);
    if (row->value == NULL) assert_int_equal(json_object_del(object, row->member), 0);
    else assert_int_equal(json_object_set_new(object, row->member, json_loads(row->value, JSON_DECODE_ANY, NULL)), 0);
    must(json_write_canonical(&changed, json, &err), &err);
    if (runner_code_file_read(buffer_bytes(&changed), &file, &err).ok) fail_msg("it is accepted");
    if (strstr(err.message, row->says) == NULL) fail_msg("%s", err.message);
    assert_int_equal(err.kind, ERROR_INVALID);
}

static void hosts_have_one_form(void **state)
{
    static const char *const good[] = {"a",     "registry.example", "registry.example:1", "127.0.0.1:8443",
                                       "[::1]", "[2001:db8::1]:443"};
    static const char *const bad[] = {"",        ":1",   "a:",     "a:x", "a/b",      "a b",   "a@b",    "https://a",
                                      "a:99999", "[a]b", "[::1]x", "[]",  "\xc3\xa4", "a:1:2", "[::1]:0"};
    char longest[REGISTRY_HOST_SIZE + 1];

    (void)state;
    for (size_t i = 0; i < COUNT(good); i++)
        if (!registry_host_is_valid(good[i])) fail_msg("%s", good[i]);
    for (size_t i = 0; i < COUNT(bad); i++)
        if (registry_host_is_valid(bad[i])) fail_msg("%s", bad[i]);
    memset(longest, 'a', sizeof longest);
    longest[REGISTRY_HOST_SIZE] = '\0';
    assert_false(registry_host_is_valid(longest));
    longest[REGISTRY_HOST_SIZE - 1] = '\0';
    assert_true(registry_host_is_valid(longest));
}

/* ---- failures ---- */

static struct result read_again(void *context, struct error *err)
{
    const struct buffer *text = context;
    OWNED(runner_code_file) *file = NULL;

    return runner_code_file_read(buffer_bytes(text), &file, err);
}

static struct result make_file(void *context, struct error *err)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(RUNNER_INVITATION_MAX), text = BUFFER(RUNNER_CODE_FILE_MAX);
    OWNED_JSON places = json_pack("[s]", "AE");
    const struct registry_pins pins = pins_of(true);
    char code[RUNNER_CODE_SIZE];

    if (places == NULL) return failure(err, ERROR_NO_MEMORY, "no memory");
    const struct runner_invitation_parts parts = parts_of(places);
    const struct runner_code made = runner_code_new(&parts.runner);
    (void)context;
    runner_code_write(&made, code);
    TRY(runner_invitation_write(&parts, keys[ROOT], &envelope, err));
    const struct runner_code_parts whole = {code, buffer_bytes(&envelope), &pins, bytes_of_text("certificates")};
    return runner_code_file_write(&whole, &text, err);
}

static void lacks_of_memory_are_said(void **state)
{
    struct buffer OWNED_BUFFER text = BUFFER(RUNNER_CODE_FILE_MAX);

    (void)state;
    write_file(true, &text);
    fail_each(read_again, &text, ERROR_NONE, 20);
    fail_each(make_file, NULL, ERROR_NONE, 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_envelope_is_no_invitation),
        cmocka_unit_test(only_keys_that_approve_invite),
        cmocka_unit_test(the_document_has_nothing_that_the_machine_chose),
        cmocka_unit_test(a_file_is_read_as_it_was_written),
        cmocka_unit_test(hosts_have_one_form),
        cmocka_unit_test(lacks_of_memory_are_said),
    };
    struct error err = {0};

    for (size_t i = 0; i < KEYS; i++) assert_true(ecdsa_key_new(&keys[i], &err).ok);
    const int failed = RUN_TABLE(rows, members_are_checked) + RUN_TABLE(file_rows, files_are_checked) +
                       cmocka_run_group_tests(tests, NULL, NULL);
    for (size_t i = 0; i < KEYS; i++) ecdsa_key_free(keys[i]);
    return failed;
}
