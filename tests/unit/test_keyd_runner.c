/* Certificates of runners: keyd makes them for documents that it has pinned, and for nothing else. */
#include "tests/unit/keyd_folder_fixture.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "crypto/runner_certificate.h"
#include "documents/format/runner_key.h"
#include "documents/format/signing_key.h"
#include "keyd/runner_certify.h"

#define NOW_MS INT64_C(1795000000000)
#define DAY_MS INT64_C(86400000)
#define EVENT  41

static struct folder folder;
static struct keyring *keyring;
static struct ledger *ledger;
static struct key_register *keys;
static struct ecdsa_key *runner;

static struct result no_pins(const void *context, struct ledger_state *state, struct error *err)
{
    (void)context, (void)err;
    memset(state->pins, 0, sizeof state->pins);
    return SUCCESS;
}

static void open_all(void)
{
    const struct keyring_options options = {
        .origin = "x.example/log", .passphrase = bytes_of_text("p"), .cost = {.passes = 1, .memory_kib = 64}};
    struct error err = {0};

    folder_make(&folder);
    assert_true(keyring_create(folder.fd, &options, ledger_create, &err).ok);
    assert_true(keyring_open(folder.fd, options.passphrase, &keyring, &err).ok);
    assert_true(ledger_open(folder.fd, keyring_ledger_key(keyring), &ledger, &err).ok);
    assert_true(ecdsa_key_new(&runner, &err).ok);
}

/* Each row has its own, so that no row's withdrawal counts in the next. */
static void open_register(void)
{
    struct error err = {0};

    key_register_free(keys);
    keys = NULL;
    assert_true(key_register_create(folder.fd, keyring_ledger_key(keyring), &err).ok);
    assert_true(ledger_change(ledger, no_pins, NULL, &err).ok);
    assert_true(key_register_open(folder.fd, keyring_ledger_key(keyring), ledger, &keys, &err).ok);
}

static void close_all(void)
{
    ecdsa_key_free(runner);
    key_register_free(keys);
    ledger_free(ledger);
    keyring_free(keyring);
    folder_remove(&folder);
}

static json_t *body_of(const uint8_t point[ECDSA_PUBLIC_SIZE], bool is_withdrawn)
{
    struct buffer OWNED_BUFFER text = BUFFER(128);
    struct error err = {0};

    assert_true(text_base64(&text, BASE64_URL, (struct bytes){point, ECDSA_PUBLIC_SIZE}, &err).ok);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:[s], s:s*}", "runner", "7b5a1b9e-55a0-4f0e-9d55-0f4d3c1e2b22",
                     "public_key", buffer_text(&text), "pool", "uae-gpu", "region", "local/dxb", "isolation", "cgroup-v2",
                     "assurance", 3, "devices", 1, "jurisdictions", "AE", "since", is_withdrawn ? "2026-11-18T00:00:00Z" : NULL);
}

static const struct row {
    const char *name;
    bool is_pinned, is_withdrawn, is_of_person;
    int64_t from_ms, lives_ms; /* from_ms: after now */
    uint64_t newest;           /* the event that keyd has pinned last; 0: the document's */
    enum error_kind kind;
    int64_t expected_ms;         /* how long the certificate lives from now */
    bool is_withdrawn_elsewhere; /* the register knows of a withdrawal in another scope */
} rows[] = {
    {"a pinned runner", true, false, false, -20 * DAY_MS, 300 * DAY_MS, 0, ERROR_NONE, 30 * DAY_MS, false},
    {"its document ends sooner", true, false, false, -DAY_MS, 8 * DAY_MS, 0, ERROR_NONE, 7 * DAY_MS, false},
    {"never pinned", false, false, false, -DAY_MS, 300 * DAY_MS, 0, ERROR_DENIED, 0, false},
    {"withdrawn", true, true, false, -DAY_MS, 300 * DAY_MS, 0, ERROR_DENIED, 0, false},
    {"withdrawn in another scope", true, false, false, -DAY_MS, 300 * DAY_MS, 0, ERROR_DENIED, 0, true},
    {"expired", true, false, false, -2 * DAY_MS, 2 * DAY_MS, 0, ERROR_DENIED, 0, false},
    {"from the future", true, false, false, DAY_MS, 300 * DAY_MS, 0, ERROR_DENIED, 0, false},
    {"another document was pinned meanwhile", true, false, false, -DAY_MS, 300 * DAY_MS, EVENT + 1, ERROR_CONFLICT, 0, false},
    {"the key of a person", true, false, true, -DAY_MS, 300 * DAY_MS, 0, ERROR_INVALID, 0, false},
};

static void compose(const struct row *row, const char *scope, struct buffer *envelope)
{
    struct buffer OWNED_BUFFER payload = BUFFER(8192);
    struct signing_key person = {.principal = "robot:7b5a1b9e-55a0-4f0e-9d55-0f4d3c1e2b22", .purpose = SIGNING_SIGN};
    const enum document_kind kind = row->is_of_person ? DOCUMENT_SIGNING_KEY : DOCUMENT_RUNNER;
    char name[ECDSA_THUMBPRINT_SIZE];
    struct error err = {0};

    ecdsa_key_public(runner, person.point);
    ecdsa_thumbprint(person.point, name);
    OWNED_JSON body = row->is_of_person ? signing_key_body(&person) : body_of(person.point, row->is_withdrawn);
    const struct document_parts parts = {.kind = kind,
                                         .scope = scope,
                                         .name = name,
                                         .version = row->is_withdrawn ? 2 : 1,
                                         .effective_ms = NOW_MS + row->from_ms,
                                         .expires_ms = NOW_MS + row->from_ms + row->lives_ms,
                                         .withdrawn = row->is_withdrawn ? "stolen" : NULL,
                                         .body = body};
    assert_true(document_compose(&parts, &payload, &err).ok);
    assert_true(document_sign(kind, buffer_bytes(&payload), runner, envelope, &err).ok);
}

static struct result set_pin(const void *context, struct ledger_state *state, struct error *err)
{
    (void)err;
    state->pins[document_kind(DOCUMENT_RUNNER)->number - 1] = *(const struct document_pin *)context;
    return SUCCESS;
}

static void withdraw(void)
{
    const struct row withdrawn = {.is_withdrawn = true, .lives_ms = DAY_MS};
    struct buffer OWNED_BUFFER envelope = BUFFER(16384);
    OWNED(document) *document = NULL;
    struct error err = {0};

    compose(&withdrawn, "globex", &envelope);
    const struct bytes bytes = buffer_bytes(&envelope);
    assert_true(document_read(&bytes, 1, &document, &err).ok);
    const struct key_register_note note = {
        .document = document, .sequence = EVENT + 1, .is_approved = true, .pin = {.epoch = EVENT + 1}};
    assert_true(key_register_note(keys, &note, &err).ok);
}

static void pin(const struct row *row, struct bytes envelope)
{
    const struct document_pin none = {0};
    struct document_pin pin = {.epoch = EVENT, .digest = {1}};
    OWNED(document) *document = NULL;
    struct error err = {0};

    assert_true(document_read(&envelope, 1, &document, &err).ok);
    if (row->is_pinned) assert_true(document_pin_next(&none, document, EVENT, &pin, &err).ok);
    if (row->is_pinned) {
        const struct key_register_note note = {.document = document, .sequence = EVENT, .is_approved = true, .pin = pin};
        assert_true(key_register_note(keys, &note, &err).ok);
    }
    if (row->is_withdrawn_elsewhere) withdraw();
    if (row->newest != 0) pin.epoch = row->newest;
    assert_true(ledger_change(ledger, set_pin, &pin, &err).ok);
}

static void certifies(void **state)
{
    const struct row *row = *state;
    struct buffer OWNED_BUFFER envelope = BUFFER(16384);
    struct buffer OWNED_BUFFER der = BUFFER(RUNNER_CERTIFICATE_MAX);
    struct runner_certificate read;
    uint8_t authority[ECDSA_PUBLIC_SIZE], point[ECDSA_PUBLIC_SIZE];
    struct error err = {0};

    compose(row, "acme", &envelope);
    open_register();
    pin(row, buffer_bytes(&envelope));
    const struct document_chain_request request = {
        .envelope_count = 1, .envelopes = {buffer_bytes(&envelope)}, .sequence = EVENT};
    const struct keyd keyd = {.keyring = keyring, .ledger = ledger, .keys = keys};
    const bool is_made = runner_certify(&keyd, &request, NOW_MS, &der, &err).ok;
    if (is_made != (row->kind == ERROR_NONE) || err.kind != row->kind) fail_msg("%s", is_made ? "it is made" : err.message);
    if (!is_made) {
        assert_int_equal(der.length, 0);
        return;
    }
    ecdsa_key_public(keyring_runner_key(keyring), authority);
    ecdsa_key_public(runner, point);
    assert_true(runner_certificate_read(buffer_bytes(&der), authority, &read, &err).ok);
    assert_memory_equal(read.point, point, sizeof point);
    assert_int_equal(read.not_after_ms, NOW_MS + row->expected_ms);
    assert_true(runner_certificate_is_current(&read, NOW_MS));
}

int main(void)
{
    open_all();
    const int failed = RUN_TABLE(rows, certifies);
    close_all();
    return failed;
}
