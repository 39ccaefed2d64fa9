/* sijil-verify replay: makes the decisions of an export again, with the policy sets that were in force. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "cmd/sijil_verify_replay.h"
#include "policy/replay_export.h"
#include "policy/set_export.h"

struct sets {
    struct replay_sets replay;
    struct policy_set *sets[VERIFY_SETS_MAX];
};

static void sets_done(struct sets *sets)
{
    replay_restrictions_free(sets->replay.restrictions);
    for (size_t i = 0; i < sets->replay.count; i++) policy_set_free(sets->sets[i]);
}

/* Whose officers have signed them is counted, from the root's key on. */
static struct result add_proven(const struct restriction_chain *chain, struct replay_restrictions **restrictions,
                                struct error *err)
{
    if (chain == NULL) return SUCCESS;
    if (*restrictions == NULL) TRY(replay_restrictions_new(restrictions, err));
    for (size_t i = 0; i < restriction_chain_count(chain); i++)
        TRY(replay_restrictions_add_proven(*restrictions, restriction_chain_at(chain, i), err));
    return SUCCESS;
}

static struct result read_exported(struct bytes text, const struct ecdsa_key *root, struct policy_set **set_out,
                                   struct replay_restrictions **restrictions, struct error *err)
{
    struct set_export_report report = {.set = NULL};

    TRY(set_export_open(text, root, &report, err));
    const struct result added = add_proven(report.restrictions, restrictions, err);
    if (added.ok) *set_out = policy_set_keep(report.set);
    set_export_report_done(&report);
    return added;
}

/* With the sets before it, if several persons have signed: then the root's own signature is not needed. */
static struct result read_signed(struct bytes text, const json_t *json, const struct ecdsa_key *approver, struct sets *sets,
                                 struct error *err)
{
    if (approver == NULL)
        return failure(err, ERROR_INVALID, "it is signed: give the public key of the root of approvers with --signer");
    if (!set_export_is(json)) return policy_set_read(text, approver, &sets->sets[sets->replay.count], err);
    return read_exported(text, approver, &sets->sets[sets->replay.count], &sets->replay.restrictions, err);
}

/* As `sijil policy restriction show --json` prints it, or the document alone. The events and the facts commit to it; who has signed it, an exported set with it shows. */
static const json_t *restriction_of(const json_t *json)
{
    const json_t *inner = json_object_get(json, "document"), *document = inner == NULL ? json : inner;
    const char *kind = json_text_of(document, "kind");

    return kind != NULL && strcmp(kind, document_kind(DOCUMENT_RESTRICTION)->name) == 0 ? document : NULL;
}

static struct result add_restriction(const json_t *json, struct replay_restrictions **restrictions, struct error *err)
{
    struct buffer OWNED_BUFFER payload = BUFFER(document_kind(DOCUMENT_RESTRICTION)->bytes_max);
    OWNED(document) *document = NULL;

    TRY(json_write_canonical(&payload, json, err));
    TRY(document_read_payload(DOCUMENT_RESTRICTION, buffer_bytes(&payload), &document, err));
    if (*restrictions == NULL) TRY(replay_restrictions_new(restrictions, err));
    return replay_restrictions_add(*restrictions, document, err);
}

/* Reads a set as it was loaded, with its signature, or as it was exported; or the document alone, if no signature is demanded. */
static struct result read_set(struct bytes text, const json_t *json, const struct ecdsa_key *approver, struct sets *sets,
                              struct error *err)
{
    struct buffer OWNED_BUFFER canonical = BUFFER(POLICY_SET_BYTES_MAX);

    if (approver != NULL || json_object_get(json, "payload") != NULL || set_export_is(json))
        return read_signed(text, json, approver, sets, err);
    TRY(json_write_canonical(&canonical, json, err));
    return policy_set_compile(buffer_bytes(&canonical), &sets->sets[sets->replay.count], err);
}

static struct result read_file(const char *file, const struct ecdsa_key *approver, struct sets *sets, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(SET_EXPORT_MAX);
    OWNED_JSON json = NULL;

    TRY(file_read(file, &text, err));
    TRY(json_read(buffer_bytes(&text), SET_EXPORT_MAX, &json, err));
    const json_t *restriction = restriction_of(json);
    if (restriction != NULL && approver != NULL)
        return failure(err, ERROR_INVALID,
                       "a restriction alone does not show who has signed it: give 'sijil policy export --organisation' with it");
    if (restriction != NULL) return add_restriction(restriction, &sets->replay.restrictions, err);
    TRY(read_set(buffer_bytes(&text), json, approver, sets, err));
    sets->replay.count++;
    return SUCCESS;
}

static struct result read_restriction(const char *file, const struct ecdsa_key *root, struct replay_restrictions **restrictions,
                                      struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(SET_EXPORT_MAX);
    OWNED(policy_set) *set = NULL;
    OWNED_JSON json = NULL;

    TRY(file_read(file, &text, err));
    TRY(json_read(buffer_bytes(&text), SET_EXPORT_MAX, &json, err));
    if (set_export_is(json)) return read_exported(buffer_bytes(&text), root, &set, restrictions, err);
    if (restriction_of(json) == NULL) return failure(err, ERROR_INVALID, "this is no restriction of an organisation");
    return add_restriction(restriction_of(json), restrictions, err);
}

struct result replay_read_restrictions(const char *const *files, const struct ecdsa_key *root,
                                       struct replay_restrictions **restrictions_out, struct error *err)
{
    OWNED(replay_restrictions) *restrictions = NULL;

    for (size_t i = 0; files[i] != NULL; i++) {
        const struct result read = read_restriction(files[i], root, &restrictions, err);
        if (!read.ok) failure_name(files[i], err);
        TRY(read);
    }
    *restrictions_out = GIVE(restrictions);
    return SUCCESS;
}

static struct result read_sets(const struct replay_request *request, const struct ecdsa_key *approver, struct sets *sets,
                               struct error *err)
{
    for (size_t i = 0; i < request->set_count; i++) {
        const struct result read = read_file(request->sets[i], approver, sets, err);
        if (!read.ok) failure_name(request->sets[i], err);
        TRY(read);
    }
    return SUCCESS;
}

/* Reads to the end of the line, without the line feed. *is_end_out: there is no further line. */
static struct result read_line(FILE *file, struct buffer *line, bool *is_end_out, struct error *err)
{
    int letter = 0;

    buffer_clear(line);
    while ((letter = getc_unlocked(file)) != EOF && letter != '\n') TRY(buffer_add_u8(line, (uint8_t)letter, err));
    if (ferror(file)) return failure(err, ERROR_UNAVAILABLE, "it can't be read");
    *is_end_out = letter == EOF && line->length == 0;
    return SUCCESS;
}

static struct result replay_lines(FILE *file, const struct sets *sets, struct replay_tally *tally, struct error *err)
{
    struct buffer OWNED_BUFFER line = BUFFER(REPLAY_LINE_MAX);
    bool is_end = false;

    for (uint64_t number = 1;; number++) {
        struct error why;
        struct result replayed = read_line(file, &line, &is_end, &why);
        if (replayed.ok && is_end) return SUCCESS;
        if (replayed.ok) replayed = replay_export_line(buffer_bytes(&line), &sets->replay, tally, &why);
        if (!replayed.ok) return failure(err, why.kind, "line %llu: %.200s", (unsigned long long)number, why.message);
    }
}

static struct result replay_with(const struct replay_request *request, struct sets *sets, struct replay_tally *tally,
                                 struct error *err)
{
    const bool is_standard = strcmp(request->file, "-") == 0;
    OWNED(ecdsa_key) *approver = NULL;

    if (request->signer != NULL) TRY(ecdsa_key_load(request->signer, &approver, err));
    TRY(read_sets(request, approver, sets, err));
    sets->replay.sets = sets->sets;
    FILE *file = is_standard ? stdin : fopen(request->file, "rbe");
    if (file == NULL) return failure(err, ERROR_NOT_FOUND, "%.200s can't be opened", request->file);
    const struct result replayed = replay_lines(file, sets, tally, err);
    if (!is_standard) (void)fclose(file);
    if (!replayed.ok && (err->kind == ERROR_INVALID || err->kind == ERROR_LIMIT)) err->kind = ERROR_DENIED;
    return replayed;
}

struct result replay_file(const struct replay_request *request, struct buffer *answer, bool *is_sound_out, struct error *err)
{
    struct sets sets = {.replay = {.count = 0}};
    struct replay_tally tally = {0};
    const struct result replayed = replay_with(request, &sets, &tally, err);

    sets_done(&sets);
    TRY(replayed);
    if (tally.agree + tally.differ + tally.impossible == 0)
        return failure(err, ERROR_DENIED,
                       "the export has no event, so it shows nothing: export some with 'sijil audit tail --json --facts'");
    *is_sound_out = replay_is_sound(&tally);
    return request->json ? replay_tally_json(&tally, answer, err) : replay_tally_text(&tally, answer, err);
}
