/* The result of an evaluation: collects it and writes it as JSON. */
#include "policy/decision_priv.h"

#include <string.h>

struct result list_add(struct arena *arena, struct list *list, size_t size, void **place_out, struct error *err)
{
    if (list->count == list->capacity) {
        const size_t capacity = list->capacity == 0 ? 4 : 2 * list->capacity;
        void *items = arena_take(arena, capacity * size);
        if (items == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a decision");
        if (list->count > 0) memcpy(items, list->items, list->count * size);
        list->items = items;
        list->capacity = capacity;
    }
    *place_out = (char *)list->items + size * list->count++;
    return SUCCESS;
}

struct result decision_deny(struct policy_decision *decision, const struct policy_denial *denial, struct error *err)
{
    void *destination = NULL;

    TRY(list_add(decision->arena, &decision->denials, sizeof *denial, &destination, err));
    memcpy(destination, denial, sizeof *denial);
    return SUCCESS;
}

struct result decision_warn(struct policy_decision *decision, const struct warning *warning, struct error *err)
{
    void *destination = NULL;

    TRY(list_add(decision->arena, &decision->warnings, sizeof *warning, &destination, err));
    memcpy(destination, warning, sizeof *warning);
    return SUCCESS;
}

/* Inserts `text` into a sorted list, unless the list has it. */
static struct result insert(struct arena *arena, struct list *list, const char *text, struct error *err)
{
    const char **texts = list->items;
    size_t at = 0;
    void *destination = NULL;

    while (at < list->count && strcmp(texts[at], text) < 0) at++;
    if (at < list->count && strcmp(texts[at], text) == 0) return SUCCESS;
    TRY(list_add(arena, list, sizeof text, &destination, err));
    texts = list->items;
    memmove(texts + at + 1, texts + at, (list->count - 1 - at) * sizeof text);
    texts[at] = text;
    return SUCCESS;
}

static struct result insert_all(struct arena *arena, struct list *list, const struct text_list *added, struct error *err)
{
    for (size_t i = 0; i < added->count; i++) TRY(insert(arena, list, added->texts[i], err));
    return SUCCESS;
}

static void raise_to(bool *has, int64_t *total, bool is_given, int64_t value)
{
    if (is_given && (!*has || value > *total)) *total = value;
    *has = *has || is_given;
}

struct result duties_merge(struct policy_decision *decision, const struct obligation *added, struct error *err)
{
    struct duties *duties = &decision->duties;
    struct obligation *sums = &duties->sums;

    raise_to(&sums->has_approvals, &sums->approvals, added->has_approvals, added->approvals);
    raise_to(&sums->has_min_sites, &sums->min_sites, added->has_min_sites, added->min_sites);
    raise_to(&sums->has_retain_min, &sums->retain_min_days, added->has_retain_min, added->retain_min_days);
    raise_to(&sums->has_audit_retain_min, &sums->audit_retain_min_days, added->has_audit_retain_min,
             added->audit_retain_min_days);
    if (added->has_retain_max && (!sums->has_retain_max || added->retain_max_days < sums->retain_max_days))
        sums->retain_max_days = added->retain_max_days;
    sums->has_retain_max |= added->has_retain_max;
    sums->has_receipt |= added->has_receipt;
    sums->receipt |= added->receipt;
    sums->has_signed_request |= added->has_signed_request;
    sums->signed_request |= added->signed_request;
    sums->has_notify |= added->has_notify;
    sums->has_evidence |= added->has_evidence;
    if (added->anchor_copy != NULL) TRY(insert(decision->arena, &duties->anchors, added->anchor_copy, err));
    TRY(insert_all(decision->arena, &duties->notify, &added->notify, err));
    return insert_all(decision->arena, &duties->evidence, &added->evidence, err);
}

int64_t policy_decision_retains(const struct policy_decision *decision, const char **rule_out, const char **policy_out)
{
    if (decision->retaining_rule == NULL) return 0;
    *rule_out = decision->retaining_rule;
    *policy_out = decision->retaining_policy;
    return decision->duties.sums.retain_min_days;
}

int64_t policy_decision_keeps_events(const struct policy_decision *decision, const char **rule_out, const char **policy_out)
{
    if (decision->keeping_rule == NULL) return 0;
    *rule_out = decision->keeping_rule;
    *policy_out = decision->keeping_policy;
    return decision->duties.sums.audit_retain_min_days;
}

bool policy_decision_ends(const struct policy_decision *decision, int64_t *days_out, const char **rule_out,
                          const char **policy_out)
{
    if (decision->ending_rule == NULL) return false;
    *rule_out = decision->ending_rule;
    *policy_out = decision->ending_policy;
    *days_out = decision->duties.sums.retain_max_days;
    return true;
}

int64_t policy_decision_sites(const struct policy_decision *decision)
{
    return decision->duties.sums.has_min_sites ? decision->duties.sums.min_sites : 0;
}

size_t policy_decision_anchors(const struct policy_decision *decision)
{
    return decision->duties.anchors.count;
}

const char *policy_decision_anchor(const struct policy_decision *decision, size_t index)
{
    const char *const *texts = decision->duties.anchors.items;

    return texts[index];
}

size_t policy_decision_evidence_count(const struct policy_decision *decision)
{
    return decision->duties.evidence.count;
}

const char *policy_decision_evidence(const struct policy_decision *decision, size_t index)
{
    return ((const char *const *)decision->duties.evidence.items)[index];
}

size_t policy_decision_told_count(const struct policy_decision *decision)
{
    return decision->duties.notify.count;
}

const char *policy_decision_told(const struct policy_decision *decision, size_t index)
{
    return ((const char *const *)decision->duties.notify.items)[index];
}

const char *policy_decision_permit(const struct policy_decision *decision, const char **policy_out)
{
    *policy_out = decision->permitting_policy;
    return decision->permitting_rule;
}

int64_t policy_decision_approvals(const struct policy_decision *decision)
{
    return decision->duties.sums.has_approvals ? decision->duties.sums.approvals : 0;
}

bool policy_decision_signed_request(const struct policy_decision *decision)
{
    return decision->duties.sums.signed_request;
}

bool policy_decision_allows(const struct policy_decision *decision)
{
    return decision->denials.count == 0;
}

const char *policy_decision_id(const struct policy_decision *decision)
{
    return decision->id;
}

size_t policy_decision_denial_count(const struct policy_decision *decision)
{
    return decision->denials.count;
}

const struct policy_denial *policy_decision_denial(const struct policy_decision *decision, size_t index)
{
    return (const struct policy_denial *)decision->denials.items + index;
}

size_t policy_decision_lifted_count(const struct policy_decision *decision)
{
    return decision->lifted.count;
}

size_t policy_decision_lifted(const struct policy_decision *decision, size_t index)
{
    return ((const struct lifting *)decision->lifted.items)[index].place;
}

/* `,"name":` or the first one without the comma. */
static struct result write_name(struct buffer *buffer, const char *name, struct error *err)
{
    const bool is_first = buffer->data[buffer->length - 1] == '{';

    return buffer_format(buffer, err, "%s\"%s\":", is_first ? "" : ",", name);
}

static struct result write_text(struct buffer *buffer, const char *name, const char *text, struct error *err)
{
    TRY(write_name(buffer, name, err));
    return json_write_string(buffer, bytes_of_text(text), err);
}

static struct result write_texts(struct buffer *buffer, const char *const *texts, size_t count, struct error *err)
{
    TRY(buffer_add_u8(buffer, '[', err));
    for (size_t i = 0; i < count; i++) {
        if (i > 0) TRY(buffer_add_u8(buffer, ',', err));
        TRY(json_write_string(buffer, bytes_of_text(texts[i]), err));
    }
    return buffer_add_u8(buffer, ']', err);
}

static struct result write_denial(struct buffer *buffer, const void *item, struct error *err)
{
    const struct policy_denial *denial = item;

    TRY(write_name(buffer, "basis", err));
    if (denial->basis == NULL) TRY(buffer_add_text(buffer, "[]", err));
    else TRY(json_write_canonical(buffer, denial->basis, err));
    TRY(write_name(buffer, "failed", err));
    TRY(write_texts(buffer, denial->failed, denial->failed_count, err));
    TRY(write_text(buffer, "message", denial->message, err));
    TRY(write_text(buffer, "policy", denial->policy, err));
    TRY(write_text(buffer, "rule", denial->rule, err));
    TRY(write_name(buffer, "unknown", err));
    return write_texts(buffer, denial->unknown, denial->unknown_count, err);
}

static struct result write_lifting(struct buffer *buffer, const void *item, struct error *err)
{
    const struct lifting *lifting = item;

    TRY(write_text(buffer, "exception", lifting->exception, err));
    TRY(write_text(buffer, "policy", lifting->policy, err));
    return write_text(buffer, "rule", lifting->rule, err);
}

static struct result write_warning(struct buffer *buffer, const void *item, struct error *err)
{
    const struct warning *warning = item;

    TRY(write_text(buffer, "code", warning->code, err));
    TRY(write_text(buffer, "detail", warning->detail, err));
    return write_text(buffer, "policy", warning->policy, err);
}

typedef RESULT write_item(struct buffer *buffer, const void *item, struct error *err);

static struct result write_list(struct buffer *buffer, const struct list *list, size_t size, write_item *write, struct error *err)
{
    TRY(buffer_add_u8(buffer, '[', err));
    for (size_t i = 0; i < list->count; i++) {
        TRY(buffer_add_text(buffer, i > 0 ? ",{" : "{", err));
        TRY(write(buffer, (const char *)list->items + i * size, err));
        TRY(buffer_add_u8(buffer, '}', err));
    }
    return buffer_add_u8(buffer, ']', err);
}

static struct result write_number(struct buffer *buffer, const char *name, bool has, int64_t value, struct error *err)
{
    if (!has) return SUCCESS;
    TRY(write_name(buffer, name, err));
    return buffer_format(buffer, err, "%lld", (long long)value);
}

/* Anchors are already JSON. */
static struct result write_anchors(struct buffer *buffer, const struct list *anchors, struct error *err)
{
    const char *const *texts = anchors->items;

    if (anchors->count == 0) return SUCCESS;
    TRY(write_name(buffer, "anchor_copy", err));
    for (size_t i = 0; i < anchors->count; i++) {
        TRY(buffer_add_u8(buffer, i > 0 ? ',' : '[', err));
        TRY(buffer_add_text(buffer, texts[i], err));
    }
    return buffer_add_u8(buffer, ']', err);
}

static struct result write_union(struct buffer *buffer, const char *name, bool has, const struct list *list, struct error *err)
{
    if (!has) return SUCCESS;
    TRY(write_name(buffer, name, err));
    return write_texts(buffer, list->items, list->count, err);
}

static struct result write_flag(struct buffer *buffer, const char *name, bool has, bool value, struct error *err)
{
    if (!has) return SUCCESS;
    TRY(write_name(buffer, name, err));
    return buffer_add_text(buffer, value ? "true" : "false", err);
}

static struct result write_duties(struct buffer *buffer, const struct duties *duties, struct error *err)
{
    const struct obligation *sums = &duties->sums;

    TRY(write_name(buffer, "obligations", err));
    TRY(buffer_add_u8(buffer, '{', err));
    TRY(write_anchors(buffer, &duties->anchors, err));
    TRY(write_number(buffer, "approvals", sums->has_approvals, sums->approvals, err));
    TRY(write_number(buffer, "audit_retain_min_days", sums->has_audit_retain_min, sums->audit_retain_min_days, err));
    TRY(write_union(buffer, "evidence", sums->has_evidence, &duties->evidence, err));
    TRY(write_number(buffer, "min_sites", sums->has_min_sites, sums->min_sites, err));
    TRY(write_union(buffer, "notify", sums->has_notify, &duties->notify, err));
    TRY(write_flag(buffer, "receipt", sums->has_receipt, sums->receipt, err));
    TRY(write_number(buffer, "retain_max_days", sums->has_retain_max, sums->retain_max_days, err));
    TRY(write_number(buffer, "retain_min_days", sums->has_retain_min, sums->retain_min_days, err));
    TRY(write_flag(buffer, "signed_request", sums->has_signed_request, sums->signed_request, err));
    return buffer_add_u8(buffer, '}', err);
}

struct result policy_decision_write(struct buffer *buffer, const struct policy_decision *decision, struct error *err)
{
    TRY(buffer_format(buffer, err, "{\"allow\":%s", policy_decision_allows(decision) ? "true" : "false"));
    TRY(write_text(buffer, "decision_id", decision->id, err));
    TRY(write_name(buffer, "denies", err));
    TRY(write_list(buffer, &decision->denials, sizeof(struct policy_denial), write_denial, err));
    TRY(write_text(buffer, "evaluator", POLICY_EVALUATOR, err));
    TRY(write_text(buffer, "groups", decision->groups_digest, err));
    TRY(write_name(buffer, "lifted", err));
    TRY(write_list(buffer, &decision->lifted, sizeof(struct lifting), write_lifting, err));
    TRY(write_duties(buffer, &decision->duties, err));
    TRY(write_name(buffer, "policies", err));
    TRY(buffer_add_text(buffer, decision->documents_digests, err));
    TRY(write_name(buffer, "warnings", err));
    TRY(write_list(buffer, &decision->warnings, sizeof(struct warning), write_warning, err));
    return buffer_add_u8(buffer, '}', err);
}

void policy_decision_free(struct policy_decision *decision)
{
    if (decision != NULL) arena_free(decision->arena);
}

bool policy_denial_is_new(const struct policy_decision *before, const struct policy_denial *denial)
{
    if (strncmp(denial->rule, "SYS-", 4) == 0 || strcmp(denial->policy, "sys") == 0) return false;
    for (size_t i = 0; i < policy_decision_denial_count(before); i++) {
        const struct policy_denial *known = policy_decision_denial(before, i);
        if (strcmp(known->rule, denial->rule) == 0 && strcmp(known->policy, denial->policy) == 0) return false;
    }
    return true;
}
