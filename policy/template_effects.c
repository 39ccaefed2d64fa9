/* What a set made from a template does: decided, not guessed. */
#include <stdio.h>
#include <string.h>

#include "policy/effects_priv.h"
#include "policy/set_text.h"
#include "policy/template.h"

#define LINE_MAX  ((size_t)1 << 20) /* 256 regions, or the messages of all rules of a set */
#define NAME_SIZE (POLICY_SCOPE_MAX + 1)

static struct result add_denials(const struct policy_decision *decision, const char *indent, struct buffer *text,
                                 struct error *err)
{
    struct buffer OWNED_BUFFER line = BUFFER(LINE_MAX);

    for (size_t i = 0; i < policy_decision_denial_count(decision); i++) {
        const struct policy_denial *denial = policy_decision_denial(decision, i);
        buffer_clear(&line);
        TRY(buffer_format(&line, err, "%s of %s: %s", denial->rule, denial->policy, denial->message));
        TRY(set_text_paragraph(indent, (unsigned)strlen(indent), buffer_text(&line), text, err));
    }
    return SUCCESS;
}

static struct result tell_no_region(const struct effects_question *question, const char *answer, struct buffer *text,
                                    struct error *err)
{
    OWNED(policy_decision) *decision = NULL;
    char region[NAME_SIZE];

    (void)snprintf(region, sizeof region, "%.*s", (int)strcspn(answer, "="), answer);
    TRY(effects_decide(question, OP_INGEST, policy_set_region(question->set, region, question->facts.now_us), &decision, err));
    TRY(buffer_format(text, err, "NO region of this set may hold it. %.70s is refused by\n", region));
    return add_denials(decision, "    ", text, err);
}

static struct result tell_regions(const struct effects_question *question, const struct template_answers *answers,
                                  struct buffer *text, struct error *err)
{
    struct buffer OWNED_BUFFER names = BUFFER(LINE_MAX), line = BUFFER(LINE_MAX);

    TRY(effects_regions(question, &names, err));
    if (names.length == 0) return tell_no_region(question, answers->region, text, err);
    TRY(buffer_format(&line, err, "%s/** may be stored in %s, and in no other region of this set.", answers->place,
                      buffer_text(&names)));
    return set_text_paragraph("", 0, buffer_text(&line), text, err);
}

/* Whoever reads that a region may hold the bytes must not find out by a refused push that names and log may not be where they are. */
static struct result tell_databases(const struct effects_question *question, struct buffer *text, struct error *err)
{
    struct buffer OWNED_BUFFER names = BUFFER(LINE_MAX), line = BUFFER(LINE_MAX);

    TRY(effects_databases(question, &names, err));
    if (names.length == 0)
        return buffer_add_text(text, "NO region of this set may have its names and its log, so nothing can be stored.\n", err);
    TRY(buffer_format(
        &line, err,
        "Its names and its log may be in %s. If the registry's database (metadata_region) is elsewhere, nothing can be stored.",
        buffer_text(&names)));
    return set_text_paragraph("", 0, buffer_text(&line), text, err);
}

static const struct policy_target *network_of(const struct policy_set *set, const char *cidr)
{
    for (size_t i = 0; i < set->network_count; i++)
        if (strcmp(set->networks[i].cidr, cidr) == 0) return set->networks[i].target;
    return NULL;
}

static struct result tell_network(const struct effects_question *question, const char *cidr, struct buffer *text,
                                  struct error *err)
{
    OWNED(policy_decision) *decision = NULL;

    TRY(effects_decide(question, OP_READ, cidr == NULL ? NULL : network_of(question->set, cidr), &decision, err));
    const bool allows = policy_decision_allows(decision);
    TRY(buffer_format(text, err, "Clients %s%s %s\n", cidr == NULL ? "of whom nothing is known" : "in ", cidr == NULL ? "" : cidr,
                      allows ? "may read it, if a role lets them." : "may not read it:"));
    return add_denials(decision, "    ", text, err);
}

static struct result tell_sources(const json_t *template, struct buffer *text, struct error *err)
{
    const json_t *sources = json_object_get(template, "sources"), *unverified = json_object_get(template, "unverified");
    struct buffer OWNED_BUFFER line = BUFFER(LINE_MAX);

    TRY(buffer_add_text(text, "\nSources\n", err));
    for (size_t i = 0; i < json_array_size(sources); i++) {
        const json_t *source = json_array_get(sources, i);
        const char *article = json_text_of(source, "article"), *read_on = json_text_of(source, "read_on");
        buffer_clear(&line);
        TRY(buffer_format(&line, err, "%s%s%s: %s. %s (%s; %s%s)", json_text_of(source, "instrument"),
                          article == NULL ? "" : ", article ", article == NULL ? "" : article, json_text_of(source, "title"),
                          json_text_of(source, "source"), json_text_of(source, "verified"),
                          read_on == NULL ? "not read for this template" : "read on ", read_on == NULL ? "" : read_on));
        TRY(set_text_paragraph("  - ", 4, buffer_text(&line), text, err));
    }
    TRY(buffer_add_text(text, "\nNot verified\n", err));
    for (size_t i = 0; i < json_array_size(unverified); i++)
        TRY(set_text_paragraph("  - ", 4, json_string_value(json_array_get(unverified, i)), text, err));
    return SUCCESS;
}

struct result policy_template_effects(const struct policy_set *set, const struct template_answers *answers, struct buffer *text,
                                      struct error *err)
{
    struct effects_question question;
    OWNED_JSON template = NULL;
    char name[NAME_SIZE]; /* of some repository there */

    TRY(policy_template_read(answers->regime, &template, err));
    (void)snprintf(name, sizeof name, "%s%s", answers->place, strchr(answers->place, '/') == NULL ? "/any/any" : "/any");
    TRY(effects_ask(set, name, answers->now_ms * 1000, &question, err));
    TRY(tell_regions(&question, answers, text, err));
    TRY(tell_databases(&question, text, err));
    for (size_t i = 0; i < answers->network_count; i++) TRY(tell_network(&question, answers->networks[i], text, err));
    TRY(tell_network(&question, NULL, text, err));
    TRY(tell_sources(template, text, err));
    TRY(buffer_add_u8(text, '\n', err));
    return set_text_paragraph("", 0, json_text_of(template, "notice"), text, err);
}
