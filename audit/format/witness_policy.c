#include "audit/format/witness_policy.h"

#include <string.h>

#include "audit/format/checkpoint.h"
#include "audit/format/text_rules_priv.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"

/* ---- names: of witnesses and groups together ---- */

static struct policy_member *find(struct witness_policy *policy, struct bytes name)
{
    for (size_t i = 0; i < policy->witness_count; i++)
        if (bytes_equal(name, bytes_of_text(policy->witnesses[i].member.name))) return &policy->witnesses[i].member;
    for (size_t i = 0; i < policy->group_count; i++)
        if (bytes_equal(name, bytes_of_text(policy->groups[i].member.name))) return &policy->groups[i].member;
    return NULL;
}

static bool is_none(struct bytes word)
{
    return bytes_equal(word, bytes_of_text("none"));
}

static struct result take_name(struct witness_policy *policy, struct bytes name, struct policy_member *member, struct error *err)
{
    if (name.length == 0 || name.length > NOTE_NAME_MAX)
        return failure(err, ERROR_INVALID, "a name has 1 to %d bytes", NOTE_NAME_MAX);
    if (is_none(name)) return failure(err, ERROR_INVALID, "\"none\" is a word of the format, and no name");
    if (find(policy, name) != NULL)
        return failure(err, ERROR_INVALID, "the name \"%.*s\" is used twice", (int)name.length, (const char *)name.data);
    memcpy(member->name, name.data, name.length);
    member->group = WITNESS_POLICY_NONE;
    return SUCCESS;
}

/* ---- lines ---- */

static struct result read_log(struct witness_policy *policy, struct bytes line, struct error *err)
{
    const struct bytes vkey = next_word(&line);
    struct note_key key;

    (void)next_word(&line); /* the URL */
    if (next_word(&line).length > 0) return failure(err, ERROR_INVALID, "it is not \"log VKEY [URL]\"");
    TRY(note_key_read(vkey, &key, err));
    if (key.algorithm != NOTE_ED25519) return failure(err, ERROR_INVALID, "the key is not one that signs checkpoints (Ed25519)");
    if (strlen(key.name) > CHECKPOINT_ORIGIN_MAX)
        return failure(err, ERROR_INVALID, "the name of a log has at most %d letters", CHECKPOINT_ORIGIN_MAX);
    for (size_t i = 0; i < policy->log_count; i++)
        if (memcmp(policy->logs[i].public_key, key.public_key, sizeof key.public_key) == 0)
            return failure(err, ERROR_INVALID, "the key of the log is listed twice");
    if (policy->log_count == WITNESS_POLICY_LOGS_MAX)
        return failure(err, ERROR_LIMIT, "more than %d logs", WITNESS_POLICY_LOGS_MAX);
    policy->logs[policy->log_count++] = key;
    return SUCCESS;
}

/* Programs from before April 2026 write the key of a witness with the algorithm of a log; it is the same key. */
static struct result read_witness_key(struct bytes vkey, struct note_key *key_out, struct error *err)
{
    struct note_key key;

    TRY(note_key_read(vkey, &key, err));
    return note_key_make(key.name, NOTE_COSIGNATURE, key.public_key, key_out, err);
}

static struct result read_witness(struct witness_policy *policy, struct bytes line, struct error *err)
{
    struct policy_witness witness = {0};
    const struct bytes name = next_word(&line), vkey = next_word(&line), url = next_word(&line);

    if (vkey.length == 0 || next_word(&line).length > 0)
        return failure(err, ERROR_INVALID, "it is not \"witness NAME VKEY [URL]\"");
    TRY(take_name(policy, name, &witness.member, err));
    TRY(read_witness_key(vkey, &witness.key, err));
    for (size_t i = 0; i < policy->witness_count; i++) {
        const struct note_key *other = &policy->witnesses[i].key;
        if (memcmp(other->public_key, witness.key.public_key, sizeof other->public_key) == 0)
            return failure(err, ERROR_INVALID, "two witnesses have one key: it would count twice");
    }
    if (url.length >= sizeof witness.url)
        return failure(err, ERROR_LIMIT, "a URL of more than %zu bytes", sizeof witness.url - 1);
    if (policy->witness_count == WITNESS_POLICY_WITNESSES_MAX)
        return failure(err, ERROR_LIMIT, "more than %d witnesses", WITNESS_POLICY_WITNESSES_MAX);
    if (url.length > 0) memcpy(witness.url, url.data, url.length);
    policy->witnesses[policy->witness_count++] = witness;
    return SUCCESS;
}

static struct result add_member(struct witness_policy *policy, struct bytes name, struct policy_group *group, struct error *err)
{
    struct policy_member *member = find(policy, name);

    if (member == NULL)
        return failure(err, ERROR_INVALID, "\"%.*s\" is not the name of a witness or group of a line above", (int)name.length,
                       (const char *)name.data);
    if (member->group != WITNESS_POLICY_NONE)
        return failure(err, ERROR_INVALID, "\"%s\" is a member twice: it would count twice", member->name);
    member->group = (int)policy->group_count;
    group->member_count++;
    return SUCCESS;
}

static struct result read_threshold(struct bytes word, struct policy_group *group, struct error *err)
{
    uint64_t threshold = 0;

    if (bytes_equal(word, bytes_of_text("any"))) threshold = 1;
    else if (bytes_equal(word, bytes_of_text("all"))) threshold = group->member_count;
    else if (!text_to_u64(word, WITNESS_POLICY_WITNESSES_MAX + WITNESS_POLICY_GROUPS_MAX, &threshold)) threshold = 0;
    if (threshold == 0 || threshold > group->member_count)
        return failure(err, ERROR_INVALID, "the threshold is \"all\", \"any\", or a number from 1 to the number of members");
    group->threshold = threshold;
    return SUCCESS;
}

static struct result read_group(struct witness_policy *policy, struct bytes line, struct error *err)
{
    struct policy_group group = {0};
    const struct bytes name = next_word(&line), threshold = next_word(&line);

    TRY(take_name(policy, name, &group.member, err));
    if (policy->group_count == WITNESS_POLICY_GROUPS_MAX)
        return failure(err, ERROR_LIMIT, "more than %d groups", WITNESS_POLICY_GROUPS_MAX);
    for (struct bytes word = next_word(&line); word.length > 0; word = next_word(&line))
        TRY(add_member(policy, word, &group, err));
    TRY(read_threshold(threshold, &group, err));
    policy->groups[policy->group_count++] = group;
    return SUCCESS;
}

static bool find_quorum(struct witness_policy *policy, struct bytes name)
{
    const struct policy_member *member = find(policy, name);

    for (size_t i = 0; i < policy->witness_count; i++)
        if (member == &policy->witnesses[i].member) return policy->quorum = i, true;
    for (size_t i = 0; i < policy->group_count; i++)
        if (member == &policy->groups[i].member) return policy->quorum = i, policy->quorum_is_group = true;
    return false;
}

static struct result read_quorum(struct witness_policy *policy, struct bytes line, bool *has_quorum, struct error *err)
{
    const struct bytes name = next_word(&line);

    if (name.length == 0 || next_word(&line).length > 0) return failure(err, ERROR_INVALID, "it is not \"quorum NAME\"");
    if (*has_quorum) return failure(err, ERROR_INVALID, "a policy has one quorum");
    *has_quorum = true;
    policy->needs_none = is_none(name);
    if (policy->needs_none || find_quorum(policy, name)) return SUCCESS;
    return failure(err, ERROR_INVALID, "the quorum is not \"none\", and not the name of a witness or group of a line above");
}

static struct result read_line(struct witness_policy *policy, struct bytes line, bool *has_quorum, struct error *err)
{
    const struct bytes kind = next_word(&line);

    if (kind.length == 0 || kind.data[0] == '#') return SUCCESS;
    if (bytes_equal(kind, bytes_of_text("log"))) return read_log(policy, line, err);
    if (bytes_equal(kind, bytes_of_text("witness"))) return read_witness(policy, line, err);
    if (bytes_equal(kind, bytes_of_text("group"))) return read_group(policy, line, err);
    if (bytes_equal(kind, bytes_of_text("quorum"))) return read_quorum(policy, line, has_quorum, err);
    return failure(err, ERROR_INVALID, "it does not begin with log, witness, group or quorum");
}

static bool is_text(struct bytes text)
{
    for (size_t i = 0; i < text.length; i++) {
        const uint8_t byte = text.data[i];
        if ((byte < 0x20 && byte != '\t' && byte != '\n') || byte == 0x7f) return false;
    }
    return true;
}

static struct bytes take_line(struct bytes *text)
{
    const uint8_t *end = memchr(text->data, '\n', text->length);
    const size_t length = end == NULL ? text->length : (size_t)(end - text->data);
    const size_t used = end == NULL ? length : length + 1;
    const struct bytes line = {text->data, length};

    *text = (struct bytes){text->data + used, text->length - used};
    return line;
}

struct result witness_policy_read(struct bytes text, struct witness_policy **policy_out, struct error *err)
{
    OWNED(witness_policy) *policy = memory_zeroed(1, sizeof *policy);
    bool has_quorum = false;

    if (policy == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a policy of witnesses");
    if (text.length > WITNESS_POLICY_BYTES_MAX)
        return failure(err, ERROR_LIMIT, "a policy of witnesses of more than %d bytes", WITNESS_POLICY_BYTES_MAX);
    if (!is_text(text)) return failure(err, ERROR_INVALID, "the policy of witnesses is not text");
    for (unsigned number = 1; text.length > 0; number++) {
        const struct bytes line = take_line(&text);
        struct error why = {0};
        if (!read_line(policy, line, &has_quorum, &why).ok)
            return failure(err, why.kind, "line %u of the policy of witnesses: %s", number, why.message);
    }
    if (!has_quorum) return failure(err, ERROR_INVALID, "the policy of witnesses has no line \"quorum\"");
    *policy_out = GIVE(policy);
    return SUCCESS;
}

void witness_policy_free(struct witness_policy *policy)
{
    free(policy);
}

/* ---- what cosignatures prove ---- */

static bool lists(const struct witness_policy *policy, const struct note_key *key)
{
    for (size_t i = 0; i < policy->log_count; i++)
        if (strcmp(policy->logs[i].name, key->name) == 0 &&
            memcmp(policy->logs[i].public_key, key->public_key, sizeof key->public_key) == 0)
            return true;
    return false;
}

bool witness_policy_is_about(const struct witness_policy *policy, const struct log_keys *log)
{
    for (size_t i = 0; i < log->count; i++)
        if (lists(policy, &log->keys[i])) return true;
    return policy->log_count == 0;
}

bool witness_policy_is_met(const struct witness_policy *policy, const uint64_t times_s[WITNESS_POLICY_WITNESSES_MAX],
                           uint64_t since_s)
{
    size_t counts[WITNESS_POLICY_GROUPS_MAX] = {0};
    bool met[WITNESS_POLICY_GROUPS_MAX] = {false};

    if (policy->needs_none) return true;
    for (size_t i = 0; i < policy->witness_count; i++) {
        const bool has_cosigned = times_s[i] > 0 && times_s[i] >= since_s;
        if (!policy->quorum_is_group && policy->quorum == i) return has_cosigned;
        if (has_cosigned && policy->witnesses[i].member.group != WITNESS_POLICY_NONE) counts[policy->witnesses[i].member.group]++;
    }
    for (size_t i = 0; i < policy->group_count; i++) { /* a member stands before its group */
        met[i] = counts[i] >= policy->groups[i].threshold;
        if (met[i] && policy->groups[i].member.group != WITNESS_POLICY_NONE) counts[policy->groups[i].member.group]++;
    }
    return met[policy->quorum];
}

static uint64_t find_since(const struct witness_policy *policy, const uint64_t times_s[WITNESS_POLICY_WITNESSES_MAX])
{
    uint64_t since_s = 0;

    for (size_t i = 0; i < policy->witness_count; i++)
        if (times_s[i] > since_s && witness_policy_is_met(policy, times_s, times_s[i])) since_s = times_s[i];
    return since_s;
}

static bool claims(const struct note *note, const struct note_key *key)
{
    for (size_t i = 0; i < note->count; i++)
        if (bytes_equal(note->signatures[i].name, bytes_of_text(key->name)) &&
            memcmp(note->signatures[i].id, key->id, NOTE_KEY_ID_SIZE) == 0)
            return true;
    return false;
}

struct result witness_policy_judge(const struct witness_policy *policy, const struct note *note,
                                   struct witness_verdict *verdict_out, struct error *err)
{
    struct witness_verdict verdict = {0};

    for (size_t i = 0; i < policy->witness_count; i++) {
        if (!claims(note, &policy->witnesses[i].key)) continue;
        TRY(note_verify(note, &policy->witnesses[i].key, &verdict.times_s[i], err));
        if (verdict.times_s[i] > 0) verdict.count++;
    }
    verdict.is_met = witness_policy_is_met(policy, verdict.times_s, 0);
    if (verdict.is_met && !policy->needs_none) verdict.since_s = find_since(policy, verdict.times_s);
    *verdict_out = verdict;
    return SUCCESS;
}

struct result witness_policy_describe(const struct witness_policy *policy, const struct witness_verdict *verdict,
                                      struct buffer *text, struct error *err)
{
    const char *before = " (";

    TRY(buffer_format(text, err, "%zu of %zu witnesses have cosigned", verdict->count, policy->witness_count));
    for (size_t i = 0; i < policy->witness_count; i++) {
        if (verdict->times_s[i] == 0) continue;
        TRY(buffer_format(text, err, "%s%s", before, policy->witnesses[i].member.name));
        before = ", ";
    }
    if (verdict->count > 0) TRY(buffer_add_u8(text, ')', err));
    return buffer_add_text(text, verdict->is_met ? ", and the quorum is met" : ", and the quorum is not met", err);
}

struct result witness_policy_demand(const struct witness_policy *policy, const struct log_keys *log, const struct note *note,
                                    struct witness_verdict *verdict_out, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(WITNESS_POLICY_WITNESSES_MAX * (NOTE_NAME_MAX + 2) + 200);
    struct witness_verdict verdict = {0};

    if (policy != NULL && !witness_policy_is_about(policy, log))
        return failure(err, ERROR_DENIED, "your policy of witnesses lists other logs than %.80s with this key",
                       log->keys[0].name);
    if (policy != NULL) TRY(witness_policy_judge(policy, note, &verdict, err));
    if (policy == NULL || verdict.is_met) {
        *verdict_out = verdict;
        return SUCCESS;
    }
    TRY(witness_policy_describe(policy, &verdict, &text, err));
    return failure(err, ERROR_DENIED, "%.200s: the checkpoint is newer than its cosignatures, or the witnesses have not seen it",
                   buffer_text(&text));
}

struct result witness_policy_json(const struct witness_policy *policy, const struct witness_verdict *verdict, struct buffer *text,
                                  struct error *err)
{
    const char *before = "";

    if (policy == NULL) return buffer_add_text(text, ",\"witnesses\":null", err);
    TRY(buffer_add_text(text, ",\"witnesses\":[", err));
    for (size_t i = 0; i < policy->witness_count; i++) {
        if (verdict->times_s[i] == 0) continue;
        TRY(buffer_add_text(text, before, err));
        TRY(json_write_string(text, bytes_of_text(policy->witnesses[i].member.name), err));
        before = ",";
    }
    return buffer_add_u8(text, ']', err);
}
