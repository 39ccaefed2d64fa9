/* `sijil runner ...`: inviting, approving and withdrawing runners (docs/runner.md). Keys sign on this machine. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "client/commands/api_priv.h"
#include "client/commands/commands_priv.h"
#include "client/commands/documents.h"
#include "client/commands/runner_attestation.h"
#include "client/hosts.h"
#include "client/local.h"
#include "documents/format/runner_code_file.h"

#define RUNNERS      "/runners"
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define PATH_ROOM    1024
#define HOUR_MS      INT64_C(3600000)
#define DAYS_DEFAULT 365

static const struct documents_list runners = {RUNNERS, "runners", "runner", false};

static struct result number_option(const struct invocation *invocation, int letter, const char *name, uint64_t most,
                                   uint64_t *value, struct error *err)
{
    const char *text = invocation_option(invocation, letter);

    if (text == NULL || text_to_u64(bytes_of_text(text), most, value)) return SUCCESS;
    return failure(err, ERROR_INVALID, "--%s %.30s: a number from 0 to %llu", name, text, (unsigned long long)most);
}

/* ---- inviting ---- */

struct wanted {
    struct runner_invitation_parts parts;
    json_t *jurisdictions, *nodes, *attestation;
    char audience[RUNNER_AUDIENCE_SIZE];
};

static struct result read_place(const struct invocation *invocation, struct wanted *wanted, struct error *err)
{
    struct runner_invitation_parts *parts = &wanted->parts;
    const char *place = NULL;

    parts->scope = documents_scope(invocation);
    parts->pool = invocation_option(invocation, 'p');
    parts->region = invocation_option(invocation, 'g');
    parts->isolation = invocation_option(invocation, 'i');
    if (parts->pool == NULL) parts->pool = "default";
    if (parts->isolation == NULL) parts->isolation = "rlimits";
    for (unsigned at = 0; (place = invocation_next_option(invocation, 'J', &at)) != NULL;)
        if (json_array_append_new(wanted->jurisdictions, json_string(place)) != 0) return api_no_memory(err);
    for (unsigned at = 0; (place = invocation_next_option(invocation, 'n', &at)) != NULL;)
        if (json_array_append_new(wanted->nodes, json_string(place)) != 0) return api_no_memory(err);
    if (parts->region == NULL)
        return failure(err, ERROR_INVALID, "--region is needed: a region of the policies, where the runner is");
    if (json_array_size(wanted->jurisdictions) == 0)
        return failure(err, ERROR_INVALID, "--jurisdiction is needed: where the runner is, such as AE; may be repeated");
    parts->jurisdictions = wanted->jurisdictions;
    parts->nodes = json_array_size(wanted->nodes) == 0 ? NULL : wanted->nodes;
    return SUCCESS;
}

static struct result read_wanted(const struct invocation *invocation, struct wanted *wanted, struct error *err)
{
    uint64_t devices = 0, assurance = 1, days = DAYS_DEFAULT, hours = RUNNER_INVITATION_HOURS;

    TRY(read_place(invocation, wanted, err));
    TRY(runner_attestation_read(invocation, &wanted->attestation, err));
    TRY(number_option(invocation, 'd', "devices", 64, &devices, err));
    TRY(number_option(invocation, 'a', "assurance", RUNNER_ASSURANCE_ATTESTED, &assurance, err));
    TRY(number_option(invocation, 'e', "expires", SIGNING_KEY_DAYS_MAX, &days, err));
    TRY(number_option(invocation, 'H', "hours", RUNNER_INVITATION_HOURS, &hours, err));
    if (days == 0 || hours == 0 || assurance == 0)
        return failure(err, ERROR_INVALID, "--expires, --hours, --assurance: at least 1");
    wanted->parts.runner = uuid_random();
    wanted->parts.devices = (int64_t)devices;
    wanted->parts.assurance = (int64_t)assurance;
    wanted->parts.attestation = wanted->attestation;
    wanted->parts.issued_ms = clock_wall_ms();
    wanted->parts.expires_ms = wanted->parts.issued_ms + (int64_t)hours * HOUR_MS;
    wanted->parts.runner_expires_ms = wanted->parts.issued_ms + (int64_t)days * 24 * HOUR_MS;
    return SUCCESS;
}

static struct result find_audience(struct session *session, struct wanted *wanted, struct error *err)
{
    OWNED_JSON self = NULL;

    TRY(api_call_in(session, "GET", "/self", NULL, &self, err));
    const char *audience = json_text_of(self, "audience");
    if (audience == NULL || strlen(audience) >= sizeof wanted->audience)
        return failure(err, ERROR_INVALID, "the registry does not name its log: it is older than this program");
    (void)snprintf(wanted->audience, sizeof wanted->audience, "%s", audience);
    wanted->parts.audience = wanted->audience;
    return SUCCESS;
}

/* The authorities that this login trusts: the machine needs them, too. */
static struct result read_ca(const char *host, struct buffer *ca, struct error *err)
{
    struct host_login login = {0};

    TRY(host_login_find(host, &login, err));
    const struct result read = login.ca_file[0] == '\0' ? SUCCESS : local(file_read(login.ca_file, ca, err), login.ca_file, err);
    explicit_bzero(&login, sizeof login);
    return read;
}

static struct result take_text(const json_t *keys, const char *member, char *place, size_t room, struct error *err)
{
    const char *text = json_text_of(keys, member);

    if (text == NULL || strlen(text) >= room)
        return failure(err, ERROR_INVALID, "the registry answered without a valid '%s'", member);
    memcpy(place, text, strlen(text) + 1);
    return SUCCESS;
}

static struct result take_point(const json_t *keys, const char *member, uint8_t point_out[ECDSA_PUBLIC_SIZE], struct error *err)
{
    const char *text = json_text_of(keys, member);

    if (text != NULL && text_from_base64_exactly(BASE64_URL, bytes_of_text(text), point_out, ECDSA_PUBLIC_SIZE)) return SUCCESS;
    return failure(err, ERROR_INVALID, "the registry answered without a valid '%s'", member);
}

static struct result take_pins(const char *host, const json_t *keys, bool has_ca, struct registry_pins *pins_out,
                               struct error *err)
{
    struct registry_pins pins = {.has_ca = has_ca};

    if (!registry_host_is_valid(host)) return failure(err, ERROR_INVALID, "'%.80s' can't stand in the file of a code", host);
    (void)snprintf(pins.host, sizeof pins.host, "%s", host);
    TRY(take_text(keys, "audience", pins.audience, sizeof pins.audience, err));
    TRY(take_text(keys, "log_key", pins.log_key, sizeof pins.log_key, err));
    TRY(take_point(keys, "signer", pins.signer, err));
    TRY(take_point(keys, "root", pins.root, err));
    *pins_out = pins;
    return SUCCESS;
}

/* On standard error, because the file may go to standard output. The pins were checked, so they have visible characters only. */
static void show_invitation(const struct wanted *wanted, const struct registry_pins *pins)
{
    char signer[ECDSA_THUMBPRINT_SIZE], root[ECDSA_THUMBPRINT_SIZE], expires[CLOCK_TEXT_SIZE];

    ecdsa_thumbprint(pins->signer, signer);
    ecdsa_thumbprint(pins->root, root);
    clock_format(wanted->parts.expires_ms, expires);
    (void)fprintf(stderr,
                  "The runner pins these keys of the registry; compare them with what you know:\n  log key  %s\n  signer   %s\n"
                  "  root     %s\nThe file is a secret until %s. On the runner's machine:\n"
                  "  sijil-runner enroll --code-file FILE --wait\nIt shows the name of its key. Then you and another person:\n"
                  "  sijil runner approve %s NAME --key FILE\n",
                  pins->log_key, signer, root, expires, pins->host);
}

static struct result write_code(struct invocation *invocation, const json_t *answer, struct bytes envelope,
                                const struct registry_pins *pins, struct error *err)
{
    const char *path = invocation_option(invocation, 'o'), *code = json_text_of(answer, "code");
    struct buffer OWNED_BUFFER text = BUFFER(RUNNER_CODE_FILE_MAX), ca = BUFFER(RUNNER_CODE_CA_MAX);

    if (code == NULL) return failure(err, ERROR_INVALID, "the registry answered without 'code'");
    TRY(read_ca(invocation->operands[0], &ca, err));
    const struct runner_code_parts parts = {code, envelope, pins, buffer_bytes(&ca)};
    struct result result = runner_code_file_write(&parts, &text, err);
    if (result.ok) result = buffer_add_text(&text, "\n", err);
    if (result.ok)
        result = local_output(file_write_output(path == NULL ? "-" : path, buffer_bytes(&text), 0600, err),
                              path == NULL ? "-" : path, err);
    if (text.data != NULL) secret_wipe(text.data, text.capacity);
    return result;
}

static struct result invite(struct invocation *invocation, struct session *session, struct wanted *wanted,
                            const struct ecdsa_key *key, struct error *err)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(RUNNER_INVITATION_MAX), ca = BUFFER(RUNNER_CODE_CA_MAX);
    struct registry_pins pins;
    OWNED_JSON body = NULL;
    OWNED_JSON answer = NULL;

    TRY(find_audience(session, wanted, err));
    TRY(read_ca(invocation->operands[0], &ca, err));
    TRY(line_check(invocation, runner_invitation_write(&wanted->parts, key, &envelope, err)));
    TRY(json_read(buffer_bytes(&envelope), RUNNER_INVITATION_MAX, &body, err));
    TRY(api_call_in(session, "POST", RUNNERS "/invitations", body, &answer, err));
    TRY(take_pins(invocation->operands[0], json_object_get(answer, "registry"), ca.length > 0, &pins, err));
    TRY(write_code(invocation, answer, buffer_bytes(&envelope), &pins, err));
    show_invitation(wanted, &pins);
    return SUCCESS;
}

struct result command_runner_invite(struct invocation *invocation, struct error *err)
{
    OWNED(session) *session = NULL;
    OWNED(ecdsa_key) *key = NULL;
    OWNED_JSON jurisdictions = json_array();
    OWNED_JSON nodes = json_array();
    struct wanted wanted = {.jurisdictions = jurisdictions, .nodes = nodes};

    if (jurisdictions == NULL || nodes == NULL) return api_no_memory(err);
    const struct result read = read_wanted(invocation, &wanted, err);
    OWNED_JSON attestation = wanted.attestation; /* the parts borrow it */
    TRY(line_check(invocation, read));
    TRY(command_signer(invocation, &key, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    return invite(invocation, session, &wanted, key, err);
}

/* ---- showing ---- */

struct result runner_print(const struct invocation *invocation, const json_t *answer, struct error *err)
{
    const json_t *document = json_object_get(answer, "document"), *body = json_object_get(document, "body");
    OWNED_JSON shown = json_pack("{s:O?, s:O?, s:O?, s:O?, s:O?, s:O?, s:O?, s:O?, s:O?, s:O?, s:O?, s:O*, s:O*, s:O*}", "name",
                                 json_object_get(answer, "name"), "state", json_object_get(answer, "state"), "runner",
                                 json_object_get(body, "runner"), "scope", json_object_get(document, "scope"), "pool",
                                 json_object_get(body, "pool"), "region", json_object_get(body, "region"), "jurisdictions",
                                 json_object_get(body, "jurisdictions"), "devices", json_object_get(body, "devices"), "isolation",
                                 json_object_get(body, "isolation"), "assurance", json_object_get(body, "assurance"), "expires",
                                 json_object_get(document, "expires"), "nodes", json_object_get(body, "nodes"), "attestation",
                                 json_object_get(body, "attestation"), "since", json_object_get(body, "since"));

    return shown == NULL ? api_no_memory(err) : api_print(invocation, shown, err);
}

struct result command_runner_show(struct invocation *invocation, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM);
    OWNED(session) *session = NULL;
    OWNED_JSON answer = NULL;

    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(documents_path(invocation, RUNNERS, "", &path, err));
    TRY(api_call_in(session, "GET", buffer_text(&path), NULL, &answer, err));
    return invocation->json ? api_print_json(answer, err) : runner_print(invocation, answer, err);
}

static struct result add_row(json_t *flat, json_t *row, struct error *err)
{
    return row != NULL && json_array_append_new(flat, row) == 0 ? SUCCESS : api_no_memory(err);
}

static struct result flatten(const json_t *rows, json_t *flat, struct error *err)
{
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i), *document = json_object_get(row, "document"),
                     *body = json_object_get(document, "body");
        TRY(add_row(flat,
                    json_pack("{s:O?, s:O?, s:O?, s:O?, s:O?, s:O?, s:O?, s:O*}", "name", json_object_get(row, "name"), "state",
                              json_object_get(row, "state"), "pool", json_object_get(body, "pool"), "region",
                              json_object_get(body, "region"), "jurisdictions", json_object_get(body, "jurisdictions"), "expires",
                              json_object_get(document, "expires"), "runner", json_object_get(body, "runner"), "missing",
                              json_object_get(row, "missing")),
                    err));
    }
    return SUCCESS;
}

/* An invitation whose code was used is there as a draft, or as a runner. */
static struct result add_invitations(const struct invocation *invocation, struct session *session, json_t *flat,
                                     struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM);
    OWNED_JSON answer = NULL;

    TRY(buffer_add_text(&path, RUNNERS "?limit=1&scope=", err));
    TRY(http_escape(&path, documents_scope(invocation), err));
    TRY(api_call_in(session, "GET", buffer_text(&path), NULL, &answer, err));
    const json_t *invitations = json_object_get(answer, "invitations");
    for (size_t i = 0; i < json_array_size(invitations); i++) {
        const json_t *row = json_array_get(invitations, i);
        const char *state = json_text_of(row, "state");
        if (state == NULL || strcmp(state, "open") != 0) continue;
        TRY(add_row(flat,
                    json_pack("{s:s, s:s, s:O?, s:O?}", "name", "-", "state", "invited", "expires",
                              json_object_get(row, "expires"), "runner", json_object_get(row, "runner")),
                    err));
    }
    return SUCCESS;
}

struct result command_runner_list(struct invocation *invocation, struct error *err)
{
    static const struct column columns[] = {{"KEY", "name"},        {"STATE", "state"},          {"POOL", "pool"},
                                            {"REGION", "region"},   {"PLACES", "jurisdictions"}, {"EXPIRES", "expires"},
                                            {"MISSING", "missing"}, {"RUNNER", "runner"}};
    OWNED(session) *session = NULL;
    OWNED_JSON rows = json_array();
    OWNED_JSON flat = json_array();

    if (rows == NULL || flat == NULL) return api_no_memory(err);
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(documents_get_all(invocation, session, &runners, rows, err));
    TRY(flatten(rows, flat, err));
    TRY(add_invitations(invocation, session, flat, err));
    return api_print_rows(invocation, flat, columns, COUNT(columns), err);
}

/* ---- approving ---- */

/* Appends each envelope of the draft, in the bytes that are signed. */
static struct result read_envelopes(const json_t *list, struct buffer texts[DOCUMENT_SIGNATURES_MAX], struct error *err)
{
    const size_t count = json_array_size(list);

    if (count == 0 || count >= DOCUMENT_SIGNATURES_MAX)
        return failure(err, ERROR_INVALID, "the draft has %zu signatures: it takes no more", count);
    for (size_t i = 0; i < count; i++) TRY(json_write_canonical(&texts[i], json_array_get(list, i), err));
    return SUCCESS;
}

static struct result check_draft(const struct invocation *invocation, const struct document *document, struct error *err)
{
    struct runner_key key;
    bool is_signed = false;

    if (document->kind != DOCUMENT_RUNNER || document->is_withdrawn || strcmp(document->name, invocation->operands[1]) != 0 ||
        strcmp(document->scope, documents_scope(invocation)) != 0)
        return failure(err, ERROR_CORRUPT, "the registry answered with the draft of another runner");
    TRY(runner_key_read(document, &key, err));
    TRY(document_is_signed_by(document, key.point, &is_signed, err));
    return is_signed ? SUCCESS : failure(err, ERROR_CORRUPT, "the draft is not signed with the runner's own key");
}

static struct result read_whole(const json_t *list, struct buffer texts[DOCUMENT_SIGNATURES_MAX], struct document **document_out,
                                struct error *err)
{
    struct bytes envelopes[DOCUMENT_SIGNATURES_MAX];

    TRY(read_envelopes(list, texts, err));
    for (size_t i = 0; i < DOCUMENT_SIGNATURES_MAX; i++) envelopes[i] = buffer_bytes(&texts[i]);
    return document_read(envelopes, json_array_size(list), document_out, err);
}

/* The document in the bytes that the runner's key has signed. The registry's description of it is not trusted. */
static struct result read_draft(const json_t *list, struct document **document_out, struct error *err)
{
    struct buffer texts[DOCUMENT_SIGNATURES_MAX];

    for (size_t i = 0; i < DOCUMENT_SIGNATURES_MAX; i++) texts[i] = BUFFER(DOCUMENTS_ENVELOPE_ROOM);
    const struct result result = read_whole(list, texts, document_out, err);
    for (size_t i = 0; i < DOCUMENT_SIGNATURES_MAX; i++) buffer_done(&texts[i]);
    return result;
}

static void show_texts(const char *what, const json_t *texts)
{
    if (texts == NULL) return;
    (void)fprintf(stderr, "  %-14s", what);
    for (size_t i = 0; i < json_array_size(texts); i++) (void)fprintf(stderr, " %s", json_string_value(json_array_get(texts, i)));
    (void)fprintf(stderr, "\n");
}

/* On standard error, because the answer goes to standard output. */
static void show_document(const struct document *document)
{
    const json_t *body = json_object_get(document->json, "body");

    (void)fprintf(stderr,
                  "You sign: the runner %s\n  runner         %s\n  scope          %s\n  pool           %s\n  region         %s\n",
                  document->name, json_text_of(body, "runner"), document->scope[0] == '\0' ? "the registry" : document->scope,
                  json_text_of(body, "pool"), json_text_of(body, "region"));
    show_texts("jurisdictions", json_object_get(body, "jurisdictions"));
    show_texts("nodes", json_object_get(body, "nodes"));
    (void)fprintf(stderr, "  devices        %lld\n  isolation      %s\n  assurance      %lld\n  expires        %s\n",
                  (long long)number_of(body, "devices"), json_text_of(body, "isolation"), (long long)number_of(body, "assurance"),
                  json_text_of(document->json, "expires"));
    runner_attestation_show(body);
}

static struct result send_document(struct invocation *invocation, struct session *session, const struct document *document,
                                   const char *tail, const json_t *body, struct error *err)
{
    struct buffer OWNED_BUFFER path = BUFFER(PATH_ROOM);
    OWNED_JSON answer = NULL;

    TRY(buffer_format(&path, err, RUNNERS "/%s/%s", document->name, tail));
    TRY(api_call_in(session, "POST", buffer_text(&path), body, &answer, err));
    return runner_print(invocation, answer, err);
}

static struct result approve(struct invocation *invocation, struct session *session, const json_t *draft,
                             const struct ecdsa_key *key, struct error *err)
{
    const json_t *list = json_object_get(draft, "envelopes");
    OWNED(document) *document = NULL;
    OWNED_JSON body = NULL;

    TRY(read_draft(list, &document, err));
    TRY(check_draft(invocation, document, err));
    show_document(document);
    TRY(documents_sign_too(draft, document, key, &body, err));
    return send_document(invocation, session, document, "approval", body, err);
}

struct result command_runner_approve(struct invocation *invocation, struct error *err)
{
    OWNED(session) *session = NULL;
    OWNED(ecdsa_key) *key = NULL;
    OWNED_JSON draft = NULL;

    TRY(command_signer(invocation, &key, err));
    TRY(command_session(invocation, invocation->operands[0], &session, err));
    TRY(documents_choose(invocation, session, &runners, true, &draft, err));
    return approve(invocation, session, draft, key, err);
}

struct result command_runner_reject(struct invocation *invocation, struct error *err)
{
    struct uuid runner;

    if (!uuid_parse(bytes_of_text(invocation->operands[1]), &runner)) return documents_end(invocation, RUNNERS, "/drafts", err);
    return documents_end(invocation, RUNNERS "/invitations", "", err);
}
