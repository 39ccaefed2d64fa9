/* Broken glasses as sijil-keyd has pinned them, with the persons behind them; and the enrolled keys of those who ask. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "documents/approver_keys.h"
#include "gateway/api/break_glass_priv.h"

/* ---- who has approved it ---- */

static struct result find_approver(const struct document *document, const struct approver_keys *approvers,
                                   struct known_glass *known, struct error *err)
{
    for (size_t i = 0; i < approvers->count && known->approved_by[0] == '\0'; i++) {
        const struct signing_key *key = &approvers->keys[i];
        bool is_signed = false;
        if (strcmp(key->principal, known->principal) == 0) continue;
        TRY(document_is_signed_by(document, key->point, &is_signed, err));
        if (is_signed) (void)text_copy(known->approved_by, sizeof known->approved_by, key->principal);
    }
    return SUCCESS;
}

struct finding {
    const struct approver_keys *approvers;
    struct known_glass known;
};

static struct result note_glass(void *context, const struct pinned_document *pinned, struct error *err)
{
    struct finding *finding = context;
    struct known_glass *known = &finding->known;
    struct break_glass glass;

    TRY(break_glass_read(pinned->document, &glass, err));
    *known = (struct known_glass){.version = pinned->document->version,
                                  .sequence = pinned->sequence,
                                  .expires_ms = pinned->document->expires_ms,
                                  .is_in_force = !break_glass_has_ended(pinned->document, clock_wall_ms())};
    memcpy(known->point, glass.point, sizeof known->point);
    (void)text_copy(known->principal, sizeof known->principal, glass.principal);
    if (glass.approved_by == NULL) return find_approver(pinned->document, finding->approvers, known, err);
    (void)text_copy(known->approved_by, sizeof known->approved_by, glass.approved_by);
    return SUCCESS;
}

struct result break_glass_find(const struct request *request, const char *name, struct known_glass *known_out, struct error *err)
{
    static const struct document_scope registry = {"", 0};
    const struct view_range one = {DOCUMENT_BREAK_GLASS, &registry, name, 1};
    OWNED_APPROVER_KEYS approvers = APPROVER_KEYS;
    struct finding finding = {.approvers = &approvers};
    struct document_view *view = request->gateway->documents;

    TRY(approver_keys_read(view, &approvers, err));
    const struct result found = document_view_find(view, &one, note_glass, &finding, err);
    if (!found.ok && err->kind == ERROR_NOT_FOUND)
        return failure(err, ERROR_NOT_FOUND, "there is no broken glass %.63s; it counts from its approval on", name);
    TRY(found);
    *known_out = finding.known;
    return SUCCESS;
}

/* ---- the holder's key ---- */

struct enrolled {
    const struct break_glass *glass;
    int64_t now_ms;
    bool counts, is_withdrawn;
};

static struct result note_enrolment(void *context, const struct pinned_document *pinned, struct error *err)
{
    struct enrolled *enrolled = context;
    struct signing_key key;

    TRY(signing_key_read(pinned->document, &key, err));
    const bool is_its = strcmp(key.principal, enrolled->glass->principal) == 0;
    enrolled->is_withdrawn = enrolled->is_withdrawn || pinned->document->is_withdrawn || pinned->document->is_withdrawn_elsewhere;
    enrolled->counts = enrolled->counts || (is_its && document_is_in_force(pinned->document, enrolled->now_ms));
    return SUCCESS;
}

/* A scope that is not there, or in which the key is not enrolled, gives nothing. */
static struct result look_in(const struct request *request, struct pg *pg, const char *name, struct enrolled *enrolled,
                             struct error *err)
{
    char thumbprint[ECDSA_THUMBPRINT_SIZE];
    struct document_scope scope;
    struct error none = {0};

    TRY(document_scope_find(lookup_of(pg), name, &scope, err));
    ecdsa_thumbprint(enrolled->glass->point, thumbprint);
    const struct view_range one = {DOCUMENT_SIGNING_KEY, &scope, thumbprint, 1};
    if (document_view_find(request->gateway->documents, &one, note_enrolment, enrolled, &none).ok || none.kind == ERROR_NOT_FOUND)
        return SUCCESS;
    return failure(err, none.kind, "%s", none.message);
}

struct result break_glass_check_key(const struct request *request, struct pg *pg, const struct break_glass *glass,
                                    struct error *err)
{
    struct enrolled enrolled = {.glass = glass, .now_ms = clock_wall_ms()};
    char organisation[BREAK_GLASS_PLACE_MAX + 1];

    (void)snprintf(organisation, sizeof organisation, "%.*s", (int)strcspn(glass->on, "/"), glass->on);
    TRY(look_in(request, pg, "", &enrolled, err));
    TRY(look_in(request, pg, organisation, &enrolled, err));
    if (strcmp(organisation, glass->on) != 0) TRY(look_in(request, pg, glass->on, &enrolled, err));
    if (enrolled.counts && !enrolled.is_withdrawn) return SUCCESS;
    return failure(err, ERROR_DENIED,
                   "the key that the document names is not an enrolled signing key of its holder, for the registry or for %s",
                   glass->on);
}
