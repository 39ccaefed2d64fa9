#include "audit/format/signed_act.h"

#include <string.h>

#include "base/json.h"
#include "base/text.h"

#define PAYLOAD_MAX ((size_t)64 << 10)
#define TIME_MAX    1e12 /* seconds: more than any clock has */

static const struct row {
    const char *action, *method, *target;
} rows[] = {
#define ACT(id, action, method, target) {action, method, target},
#include "audit/format/acts.def"
#undef ACT
};

/* A target of the table that ends in a slash is the begin of one; another one is the whole path. */
static bool is_target(const char *target, const char *wanted)
{
    const size_t length = strlen(wanted);

    if (strncmp(target, wanted, length) != 0) return false;
    return wanted[length - 1] == '/' || target[length] == '\0' || target[length] == '?';
}

bool signed_act_fits(const char *action, const char *method, const char *target)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(rows[i].action, action) == 0 && strcmp(rows[i].method, method) == 0 && is_target(target, rows[i].target))
            return true;
    return false;
}

/* A time may have a fraction (RFC 7519, 2), which is cut off. */
static bool read_time(const json_t *claims, int64_t *seconds_out)
{
    const json_t *time = json_object_get(claims, "iat");
    const double seconds = json_number_value(time);

    if (!json_is_number(time) || !(seconds >= 0 && seconds < TIME_MAX)) return false;
    *seconds_out = (int64_t)seconds;
    return true;
}

/* All before the last full stop; key_proof_read() has found three segments. */
static struct signed_act_id id_of(const char *text)
{
    const char *signature = strrchr(text, '.');
    struct signed_act_id id;

    sha256_of((struct bytes){(const uint8_t *)text, signature == NULL ? 0 : (size_t)(signature - text)}, id.digest);
    return id;
}

struct result signed_act_read(const char *text, struct signed_act *act_out, struct error *err)
{
    OWNED_SIGNED_ACT act = {.proof = {.claims = NULL}};

    TRY(key_proof_read(text, SIGNED_ACT_TYPE, &act.proof, err));
    act.method = json_text_of(act.proof.claims, "htm");
    act.target = json_text_of(act.proof.claims, "target");
    act.body = json_text_of(act.proof.claims, "body");
    if (act.method == NULL || act.target == NULL || act.body == NULL || !read_time(act.proof.claims, &act.issued_s))
        return failure(err, ERROR_INVALID, "the signature names no request: htm, target, body and iat in seconds");
    act.id = id_of(text);
    *act_out = act;
    act.proof.claims = NULL;
    return SUCCESS;
}

void signed_act_done(struct signed_act *act)
{
    key_proof_done(&act->proof);
}

bool signed_act_key(const char *note, char key_out[KEY_PROOF_KEY_SIZE])
{
    const size_t before = strlen(SIGNED_ACT_NOTE), length = KEY_PROOF_KEY_SIZE - 1;

    if (strncmp(note, SIGNED_ACT_NOTE, before) != 0 || strlen(note + before) < length) return false;
    const char after = note[before + length];
    if (after != '\0' && after != ';') return false;
    memcpy(key_out, note + before, length);
    key_out[length] = '\0';
    return true;
}

static bool is_near(const struct signed_act *act, int64_t time_ms)
{
    const int64_t late_s = time_ms / 1000 - act->issued_s;

    return late_s <= SIGNED_ACT_LATE_S && late_s >= -SIGNED_ACT_LATE_S;
}

/* The time in the log is there always, and the log's order bounds it. Whoever writes an event chooses whether it has a decision, and of when. */
static bool is_of_its_time(const struct leaf *leaf, const struct signed_act *act)
{
    const struct leaf_reason *reason = &leaf->reason;

    return is_near(act, leaf->time_ms) && (!reason->has_decided || is_near(act, (int64_t)reason->decided_ms));
}

static const char *wrong(const struct leaf *leaf, const char *key, const struct signed_act *act)
{
    bool fits =
        strcmp(leaf->outcome, "allowed") != 0; /* a handler may be denied another action than the one that was asked for */

    if (strcmp(act->proof.key, key) != 0) return "the request is signed by another key than the one that the event names";
    for (size_t i = 0; i < leaf->target_count; i++)
        fits = fits || signed_act_fits(leaf->targets[i].action, act->method, act->target);
    if (!fits) return "the signature of the event is over another request than one for its action";
    return is_of_its_time(leaf, act) ? NULL : "the request was signed at another time than that of the event";
}

static struct result no_memory_or(struct error *err, const char *why)
{
    return failure(err, err->kind == ERROR_NO_MEMORY ? ERROR_NO_MEMORY : ERROR_DENIED, "%s", why);
}

struct result signed_act_check(const struct leaf *leaf, struct bytes payload, bool *is_signed_out, struct signed_act_id *id_out,
                               struct error *err)
{
    OWNED_SIGNED_ACT act = {.proof = {.claims = NULL}};
    char key[KEY_PROOF_KEY_SIZE];
    OWNED_JSON value = NULL;

    *is_signed_out = false;
    if (!signed_act_key(leaf->reason.note, key)) return SUCCESS;
    if (!json_read(payload, PAYLOAD_MAX, &value, err).ok) return no_memory_or(err, "the sealed part is no JSON object");
    const char *text = json_text_of(value, SIGNED_ACT_MEMBER);
    if (text == NULL) return failure(err, ERROR_DENIED, "the event names a key, and has no signature of it");
    if (!signed_act_read(text, &act, err).ok)
        return no_memory_or(err, "the signature of the event's request is not that of its key");
    const char *why = wrong(leaf, key, &act);
    if (why != NULL) return failure(err, ERROR_DENIED, "%s", why);
    if (id_out != NULL) *id_out = act.id;
    *is_signed_out = true;
    return SUCCESS;
}
