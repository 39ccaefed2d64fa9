#include "policy/sentence_priv.h"

#include <inttypes.h>

#define STORING (OP_INGEST | OP_MOUNT | OP_REPLICATE | OP_MIGRATE | OP_CACHE | OP_BACKUP | OP_RESTORE)
#define READING (OP_READ | OP_STAT | OP_LIST)
#define USING   (READING | OP_TRAIN | OP_EXPORT | OP_PROMOTE)

/* The first row whose bits are all there takes them. */
static const struct {
    uint32_t operations;
    const char *word;
} verbs[] = {
    {STORING, "stored"},
    {OP_INGEST, "pushed"},
    {OP_MOUNT, "mounted"},
    {OP_REPLICATE, "replicated"},
    {OP_MIGRATE, "moved"},
    {OP_CACHE, "cached"},
    {OP_BACKUP, "backed up"},
    {OP_RESTORE, "restored"},
    {OP_METADATA, "described"},
    {OP_LOG, "logged"},
    {OP_KEY_WRAP, "encrypted"},
    {READING, "read"},
    {OP_READ, "read (their content)"},
    {OP_STAT, "looked up"},
    {OP_LIST, "listed"},
    {OP_EXPORT, "exported"},
    {OP_TRAIN, "trained on"},
    {OP_PROMOTE, "promoted"},
};

struct result sentence_list(const struct text_list *list, const char *last, struct buffer *text, struct error *err)
{
    for (size_t i = 0; i < list->count; i++) {
        if (i > 0) TRY(i + 1 == list->count ? buffer_format(text, err, " %s ", last) : buffer_add_text(text, ", ", err));
        TRY(buffer_add_text(text, list->texts[i], err));
    }
    return SUCCESS;
}

struct result sentence_operations(uint32_t operations, struct buffer *text, struct error *err)
{
    const char *words[OP_COUNT];
    struct text_list list = {0, words};

    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
        if ((operations & verbs[i].operations) != verbs[i].operations) continue;
        operations &= ~verbs[i].operations;
        words[list.count++] = verbs[i].word;
    }
    return sentence_list(&list, "and", text, err);
}

static struct result add_subjects(uint32_t subjects, const char *last, struct buffer *text, struct error *err)
{
    const char *words[LABEL_SUBJECT_COUNT];
    struct text_list list = {0, words};

    for (size_t i = 0; i < LABEL_SUBJECT_COUNT; i++)
        if ((subjects & (uint32_t)1 << i) != 0) words[list.count++] = subject_names[i];
    return sentence_list(&list, last, text, err);
}

/* ---- labels ---- */

struct result sentence_data(const struct label_test *test, struct buffer *text, struct error *err)
{
    const size_t before = text->length;

    TRY(buffer_add_text(text, "Data", err));
    if (test->subjects_any != 0) {
        TRY(buffer_add_text(text, " about ", err));
        TRY(add_subjects(test->subjects_any, "or", text, err));
    }
    if (test->subjects_none != 0) {
        TRY(buffer_add_text(text, " that are not about ", err));
        TRY(add_subjects(test->subjects_none, "or", text, err));
    }
    if (test->attached_any.count > 0) {
        TRY(buffer_add_text(text, " under ", err));
        TRY(sentence_list(&test->attached_any, "or", text, err));
    }
    if (test->class_at_least > 0) TRY(buffer_format(text, err, " of class %s or stricter", class_names[test->class_at_least]));
    if (test->class_at_most >= 0) TRY(buffer_format(text, err, " of class %s at most", class_names[test->class_at_most]));
    if (text->length > before + 4) return SUCCESS;
    buffer_truncate(text, before);
    return buffer_add_text(text, "All data", err);
}

struct result sentence_floor(const struct label *floor, struct buffer *text, struct error *err)
{
    const struct text_list regimes = {floor->regime_count, floor->regimes};

    TRY(buffer_format(text, err, "at least %s", class_names[floor->class]));
    if (floor->subjects != 0) {
        TRY(buffer_add_text(text, "; about ", err));
        TRY(add_subjects(floor->subjects, "and", text, err));
    }
    if (regimes.count == 0) return SUCCESS;
    TRY(buffer_add_text(text, "; under ", err));
    return sentence_list(&regimes, "and", text, err);
}

/* What a `require` asks of the label itself. */
static struct result add_demand(const struct label_test *demand, struct buffer *text, struct error *err)
{
    const char *between = "";

    if (demand->class_at_most >= 0) {
        TRY(buffer_format(text, err, "of class %s at most", class_names[demand->class_at_most]));
        between = ", and ";
    }
    if (demand->subjects_none != 0) {
        TRY(buffer_format(text, err, "%sabout nothing of ", between));
        TRY(add_subjects(demand->subjects_none, "or", text, err));
        between = ", and ";
    }
    if (demand->lineage_at_least < 0) return SUCCESS;
    return buffer_format(text, err, "%sof a lineage that is at least %s", between, lineage_names[demand->lineage_at_least]);
}

/* ---- places ---- */

/* What a condition on a target says, before its list. NULL: it has no list. */
static const char *phrase_of(const struct predicate *predicate, bool is_use)
{
    switch ((int)predicate->kind) {
    case TEST_GEO_WITHIN: return is_use ? "from " : "in ";
    case TEST_GEO_IN_GROUP: return is_use ? "from a place of the group " : "in a place of the group ";
    case TEST_REGIME_IN_GROUP: return "under a regime of the group ";
    case TEST_OPERATOR: return "by an operator that nobody controls from ";
    case TEST_KEY_GEO: return "with keys in ";
    case TEST_KEY_CONTROL: return "with keys of the kind ";
    case TEST_OF_FACT + FACT_REGIMES: return "under ";
    case TEST_OF_FACT + FACT_ATTRS: return "with the attributes ";
    case TEST_OF_FACT + FACT_RECIPIENT: return "by the ";
    default: return NULL;
    }
}

/* A fact without words of its own is told by its name. */
static struct result add_predicate(const struct predicate *predicate, bool is_use, struct buffer *text, struct error *err)
{
    const char *phrase = phrase_of(predicate, is_use);
    const unsigned fact = (unsigned)predicate->kind - TEST_OF_FACT;
    const bool is_fact = fact < FACT_COUNT;

    if (fact == FACT_ASSURANCE)
        return buffer_format(text, err, "where the place is proven (assurance %" PRId64 " or more)", predicate->number);
    if (phrase != NULL) TRY(buffer_add_text(text, phrase, err));
    else if (is_fact) TRY(buffer_format(text, err, "with the %s ", fact_names[fact]));
    if (is_fact && fact_comparisons[fact] == IS_AT_LEAST)
        return buffer_format(text, err, "%" PRId64 " or more", predicate->number);
    return sentence_list(&predicate->texts, is_fact && fact_comparisons[fact] == HAS_ALL ? "and" : "or", text, err);
}

static struct result add_alternatives(const struct rule *rule, struct buffer *text, struct error *err)
{
    const bool is_use = (rule->operations & ~(uint32_t)USING) == 0;

    for (size_t i = 0; i < rule->alternative_count; i++) {
        const struct target_test *test = &rule->alternatives[i];
        if (i > 0) TRY(buffer_add_text(text, "; or ", err));
        for (size_t j = 0; j < test->count; j++) {
            if (j > 0) TRY(buffer_add_text(text, j + 1 == test->count ? " and " : ", ", err));
            TRY(add_predicate(&test->predicates[j], is_use, text, err));
        }
    }
    return SUCCESS;
}

static struct result add_fact(const char *before, const struct text_list *list, struct buffer *text, struct error *err)
{
    if (list->count == 0) return SUCCESS;
    TRY(buffer_add_text(text, before, err));
    return sentence_list(list, "and", text, err);
}

/* A fact without words of its own is told by its name. */
static struct result add_known(enum fact_index index, const struct fact *fact, struct buffer *text, struct error *err)
{
    static const char *const words[FACT_COUNT] = {[FACT_ATTRS] = "attributes ", [FACT_RECIPIENT] = ""};
    const bool is_list = fact_comparisons[index] == HAS_ALL || fact_comparisons[index] == HAS_ANY;

    if (!fact->is_known || (is_list && fact->texts.count == 0)) return SUCCESS;
    if (words[index] != NULL) TRY(buffer_format(text, err, "; %s", words[index]));
    else TRY(buffer_format(text, err, "; %s ", fact_names[index]));
    if (is_list) return sentence_list(&fact->texts, "and", text, err);
    return fact->text != NULL ? buffer_add_text(text, fact->text, err) : buffer_format(text, err, "%" PRId64, fact->number);
}

struct result sentence_target(const struct policy_target *target, struct buffer *text, struct error *err)
{
    const struct fact *facts = target->facts;
    const char *name = json_text_of(json_object_get(target->json, "operator"), "name");
    const char *evidence = json_text_of(target->json, "location_evidence");

    TRY(buffer_add_text(text, target->geo == NULL ? "place unknown" : target->geo, err));
    if (evidence != NULL) TRY(buffer_format(text, err, " (by %s)", evidence));
    if (facts[FACT_ASSURANCE].is_known) TRY(buffer_format(text, err, ", assurance %" PRId64, facts[FACT_ASSURANCE].number));
    TRY(add_fact("; under ", &facts[FACT_REGIMES].texts, text, err));
    if (name != NULL) TRY(buffer_format(text, err, "; operator %s", name));
    TRY(add_fact(", controlled from ", &target->controllers, text, err));
    if (target->key_control != NULL || target->key_geo != NULL)
        TRY(buffer_format(text, err, "; keys: %s in %s", target->key_control == NULL ? "control unknown" : target->key_control,
                          target->key_geo == NULL ? "an unknown place" : target->key_geo));
    for (unsigned i = 0; i < FACT_COUNT; i++)
        if (i != FACT_REGIMES && i != FACT_ASSURANCE) TRY(add_known((enum fact_index)i, &facts[i], text, err));
    return SUCCESS;
}

/* ---- duties and rules ---- */

static struct result add_days(const char *what, int64_t days, struct buffer *text, struct error *err)
{
    TRY(buffer_format(text, err, "%s %" PRId64 " days; ", what, days));
    if (days < 365) return SUCCESS;
    buffer_truncate(text, text->length - 2);
    return buffer_format(text, err, " (%" PRId64 " %s); ", (days + 182) / 365, days < 548 ? "year" : "years");
}

/* {"geo_within": [...], "max_staleness_s": 86400} */
static struct result add_anchor(const char *canonical, struct buffer *text, struct error *err)
{
    OWNED_JSON anchor = NULL;
    int64_t seconds = 0;

    TRY(json_read(bytes_of_text(canonical), POLICY_DOCUMENT_BYTES_MAX, &anchor, err));
    const json_t *places = json_object_get(anchor, "geo_within");
    TRY(buffer_add_text(text, "a copy in ", err));
    for (size_t i = 0; i < json_array_size(places); i++)
        TRY(buffer_format(text, err, "%s%s", i > 0 ? " or " : "", json_string_value(json_array_get(places, i))));
    if (json_integer_of(anchor, "max_staleness_s", &seconds))
        TRY(buffer_format(text, err, ", at most %" PRId64 " seconds older", seconds));
    return buffer_add_text(text, "; ", err);
}

static struct result add_keeping(const struct obligation *duties, struct buffer *text, struct error *err)
{
    if (duties->has_retain_min) TRY(add_days("kept at least", duties->retain_min_days, text, err));
    if (duties->has_retain_max) TRY(add_days("kept at most", duties->retain_max_days, text, err));
    if (duties->has_audit_retain_min) TRY(add_days("their events kept at least", duties->audit_retain_min_days, text, err));
    if (duties->has_min_sites) TRY(buffer_format(text, err, "at %" PRId64 " sites or more; ", duties->min_sites));
    return duties->anchor_copy == NULL ? SUCCESS : add_anchor(duties->anchor_copy, text, err);
}

struct result sentence_duties(const struct obligation *duties, struct buffer *text, struct error *err)
{
    const size_t before = text->length;

    TRY(add_keeping(duties, text, err));
    if (duties->has_approvals) TRY(buffer_format(text, err, "%" PRId64 " approvals of each run; ", duties->approvals));
    if (duties->signed_request) TRY(buffer_add_text(text, "signed requests for runs; ", err));
    if (duties->receipt) TRY(buffer_add_text(text, "a receipt for each; ", err));
    if (duties->notify.count > 0) {
        TRY(add_fact("told to ", &duties->notify, text, err));
        TRY(buffer_add_text(text, "; ", err));
    }
    if (duties->evidence.count > 0) {
        TRY(add_fact("with the evidence ", &duties->evidence, text, err));
        TRY(buffer_add_text(text, "; ", err));
    }
    if (text->length > before) buffer_truncate(text, text->length - 2);
    return SUCCESS;
}

struct result sentence_rule(const struct rule *rule, struct buffer *text, struct error *err)
{
    if (rule->effect == EFFECT_PERMIT) TRY(buffer_add_text(text, "may be ", err));
    TRY(sentence_operations(rule->operations, text, err));
    if (rule->effect == EFFECT_PERMIT) return SUCCESS;
    if (rule->effect == EFFECT_OBLIGE) {
        TRY(buffer_add_text(text, ": ", err));
        return sentence_duties(&rule->oblige, text, err);
    }
    TRY(buffer_add_text(text, rule->effect == EFFECT_DENY ? " never " : " only ", err));
    if (!rule->is_of_label) return add_alternatives(rule, text, err);
    TRY(buffer_add_text(text, "if they are ", err));
    return add_demand(&rule->label, text, err);
}
