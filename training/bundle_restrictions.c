/* The restrictions of organisations in the bundle of a run (docs/policies.md): whoever gets it compares their digests with what it knows, or with the facts of a decision. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "documents/format/restriction.h"
#include "policy/decider/set_store.h"
#include "policy/document.h"
#include "training/bundle_priv.h"
#include "training/format/artifacts.h"

#define TEXTS_MAX 16   /* of a bundle */
#define ROWS_MAX  4096 /* documents of one organisation, with those of its officers and of approvers */

static struct result no_memory(struct error *err)
{
    return failure(err, ERROR_NO_MEMORY, "no memory for restrictions");
}

static bool has(const json_t *list, struct bytes text)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        if (bytes_equal(bytes_of_text(json_string_value(json_array_get(list, i))), text)) return true;
    return false;
}

/* A bundle without any has no such member: programs that know none take it. */
static struct result append(json_t *bundle, const struct document *document, struct error *err)
{
    const struct bytes text = document_payload(document);
    json_t *list = json_object_get(bundle, "restrictions");

    if (list == NULL && json_object_set_new(bundle, "restrictions", json_array()) != 0) return no_memory(err);
    list = json_object_get(bundle, "restrictions");
    if (has(list, text) || json_array_size(list) == TEXTS_MAX) return SUCCESS;
    return json_array_append_new(list, json_stringn((const char *)text.data, text.length)) == 0 ? SUCCESS : no_memory(err);
}

/* ---- in force ---- */

struct gathering {
    json_t *bundle;
    int64_t now_ms;
};

static struct result gather(void *context, const struct pinned_document *pinned, struct error *err)
{
    const struct gathering *gathering = context;

    return document_is_in_force(pinned->document, gathering->now_ms) ? append(gathering->bundle, pinned->document, err) : SUCCESS;
}

static struct result add_of(const struct run_bundle_source *source, const json_t *artifact, json_t *bundle, struct error *err)
{
    const char *repository = json_text_of(artifact, "repository");
    char organisation[DOCUMENT_SCOPE_SIZE];
    struct gathering gathering = {bundle, clock_wall_ms()};

    if (repository == NULL) return SUCCESS;
    (void)snprintf(organisation, sizeof organisation, "%.*s", (int)strcspn(repository, "/"), repository);
    const struct document_scope scope = {organisation, 0};
    const struct view_range range = {DOCUMENT_RESTRICTION, &scope, "", SIZE_MAX};
    return document_view_visit(source->documents, &range, gather, &gathering, err);
}

struct result bundle_restrictions_of_day(const struct run_bundle_source *source, const json_t *spec, json_t *bundle,
                                         struct error *err)
{
    const json_t *outputs = json_object_get(spec, "outputs");
    const struct run_artifacts artifacts = run_spec_artifacts(spec);

    for (size_t i = 0; i < artifacts.count; i++) TRY(add_of(source, artifacts.each[i].json, bundle, err));
    for (size_t i = 0; i < json_array_size(outputs); i++) TRY(add_of(source, json_array_get(outputs, i), bundle, err));
    return SUCCESS;
}

/* ---- named by a decision ---- */

/* Rows of others that can't be read are none. */
static struct result add_named(struct bytes envelope, const char *line, json_t *bundle, struct error *err)
{
    OWNED(policy_document) *compiled = NULL;
    OWNED(document) *document = NULL;
    const json_t *policy = NULL;
    struct error none = {0};

    if (!document_read(&envelope, 1, &document, &none).ok || document->kind != DOCUMENT_RESTRICTION ||
        !restriction_read(document, &policy, &none).ok || !policy_document_new((json_t *)(uintptr_t)policy, &compiled, &none).ok)
        return none.kind == ERROR_NO_MEMORY ? no_memory(err) : SUCCESS;
    return strstr(line, policy_document_digest(compiled)) == NULL ? SUCCESS : append(bundle, document, err);
}

struct result bundle_restrictions_named(const struct run_bundle_source *source, const char *project, const char *line,
                                        json_t *bundle, struct error *err)
{
    char organisation[DOCUMENT_SCOPE_SIZE];
    OWNED(pg_rows) *rows = NULL;

    if (strstr(line, "\"restrictions\":[") == NULL) return SUCCESS;
    (void)snprintf(organisation, sizeof organisation, "%.*s", (int)strcspn(project, "/"), project);
    TRY(restriction_documents(source->pg, organisation, 0, ROWS_MAX, &rows, err));
    for (size_t i = 0; i < pg_rows_count(rows); i++) TRY(add_named(pg_bytes(rows, i, 2), line, bundle, err));
    return SUCCESS;
}
