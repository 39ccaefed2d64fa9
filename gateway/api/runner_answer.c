/* GET /api/v1/runners: runners in force, drafts, invitations; docs/runner.md. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "gateway/api/runner_priv.h"
#include "policy/decider/decider.h"

PART(runner_attestation, "why it is certain where the runner is",
     HAS_TEXT("by", REQUIRED, FORM_FREE, 1, 127, "who looked at the machine, and how"),
     HAS_TEXT("evidence", REQUIRED, FORM_FREE, 71, 71, "SHA-256 of the file that shows it"),
     HAS_TEXTS("networks", REQUIRED, 1, RUNNER_NETWORKS_MAX, NULL, "what comes from elsewhere is not attested"))
PART(runner_body, "a runner's key, and the place that it was enrolled for", HAS_ID("runner", REQUIRED, "the runner"),
     HAS_TEXT("public_key", REQUIRED, FORM_FREE, 87, 87, "base64url of the uncompressed point"),
     HAS_TEXT("pool", REQUIRED, FORM_FREE, 1, 63, "the orders that it gets"),
     HAS_TEXT("region", REQUIRED, FORM_FREE, 1, 63, "the region whose facts decide `train`"),
     HAS_TEXTS("jurisdictions", REQUIRED, 1, 16, NULL, "where it is"), HAS_NUMBER("devices", REQUIRED, 0, 64, "accelerators"),
     HAS_WORD("isolation", REQUIRED, "rlimits cgroup-v1 cgroup-v2", "the least that it gives"),
     HAS_NUMBER("assurance", REQUIRED, 1, RUNNER_ASSURANCE_ATTESTED, "how well it is known"),
     HAS_OBJECT("attestation", OPTIONAL, schema_runner_attestation, "of an attested runner (assurance 4)"),
     HAS_TEXTS("nodes", OPTIONAL, 1, 32, NULL, "UIDs of the nodes of a Kubernetes cluster where its pods may be"),
     HAS_TIME("since", OPTIONAL, "of a withdrawal: results that it signed from then on do not count"))
PART(runner_document, "the signed payload (docs/formats/documents.md)",
     HAS_WORD("schema", REQUIRED, "sijil.document/v1", "the form of the document"),
     HAS_WORD("kind", REQUIRED, "runner", "the kind of the document"),
     HAS_TEXT("scope", REQUIRED, FORM_FREE, 0, RESOURCE_NAME_MAX, "whose runs it gets; empty: of all organisations"),
     HAS_TEXT("name", REQUIRED, FORM_FREE, 43, 43, "the key's RFC 7638 thumbprint"),
     HAS_NUMBER("version", REQUIRED, 1, 2, "1 enrols the runner, 2 withdraws it"),
     HAS_TIME("effective_from", REQUIRED, "not in force before"), HAS_TIME("expires", REQUIRED, "not in force from then on"),
     HAS_TEXT("withdrawn", OPTIONAL, FORM_FREE, 1, 256, "why version 2 withdraws the runner"),
     HAS_OBJECT("body", REQUIRED, schema_runner_body, "the runner"))
PART(runner_signature, "one signature", HAS_TEXT("sig", REQUIRED, FORM_FREE, 1, 0, "ECDSA P-256 in DER, in base64"),
     HAS_TEXT("keyid", OPTIONAL, FORM_FREE, 0, 127, "the RFC 7638 thumbprint of the key that made it; not signed"))
SCHEMA(runner_envelope, "one signature of a runner's document, with the document (DSSE)",
       HAS_WORD("payloadType", REQUIRED, "application/vnd.sijil.runner.v1+json", "what the payload is"),
       HAS_TEXT("payload", REQUIRED, FORM_FREE, 1, 0, "the document in base64"),
       HAS_SOME("signatures", REQUIRED, 1, 8, schema_runner_signature, "of its signer"))
PART(runner_signer, "the principal that brought a signature",
     HAS_TEXT("principal", REQUIRED, FORM_FREE, 1, 79, "as documents name it; the runner itself: runner: and its UUID"),
     HAS_TEXT("person", OPTIONAL, FORM_FREE, 1, 79, "the person behind it; absent: nobody"))
SCHEMA(runner, "a runner", HAS_TEXT("name", REQUIRED, FORM_FREE, 43, 43, "the thumbprint of its key; names it in paths"),
       HAS_TEXT("state", REQUIRED, FORM_FREE, 1, 10, "draft, in force, to come, expired or withdrawn"),
       HAS_COUNT("event", OPTIONAL, "the number of its event; a draft has none"),
       HAS_OBJECT("envelope", OPTIONAL, schema_runner_envelope, "of a draft: the runner's own signature"),
       HAS_LIST("envelopes", OPTIONAL, DOCUMENT_SIGNATURES_MAX, schema_runner_envelope,
                "of a draft, and of one runner: all signatures, the runner's own first"),
       HAS_LIST("signed_by", OPTIONAL, DOCUMENT_SIGNATURES_MAX, schema_runner_signer,
                "of a draft: who signed, in the order of the envelopes"),
       HAS_COUNT("missing", OPTIONAL, "of a draft: so many more signatures it needs, if the root does not sign"),
       HAS_OBJECT("document", REQUIRED, schema_runner_document, "what is signed"))
PART(runner_invited, "a code that waits", HAS_ID("runner", REQUIRED, "the runner; names the invitation in paths"),
     HAS_WORD("state", REQUIRED, "open used expired", "whether its code can be used"),
     HAS_TEXT("invited_by", REQUIRED, FORM_FREE, 1, 255, "the principal that invited"),
     HAS_TEXT("name", OPTIONAL, FORM_FREE, 43, 43, "the thumbprint of the key that used the code"),
     HAS_TIME("invited", REQUIRED, "when"), HAS_TIME("expires", REQUIRED, "when the code ends"),
     HAS_TIME("used", OPTIONAL, "when the code was used"))
SCHEMA(runners, "a page of runners", HAS_LIST("runners", REQUIRED, 1000, schema_runner, "by name"),
       HAS_LIST("drafts", REQUIRED, 64, schema_runner, "runners that wait for their approvers, on the first page"),
       HAS_LIST("invitations", REQUIRED, 2 * INVITATIONS_MAX, schema_runner_invited, "on the first page"), HAS_NEXT)
SCHEMA(runner_approval, "all signatures of a draft",
       HAS_SOME("envelopes", REQUIRED, 1, DOCUMENT_SIGNATURES_MAX, schema_runner_envelope,
                "the draft's, then the approver's, of the same payload"))

/* ---- targets ---- */

struct result target_runner_list(struct request *request, struct lookup *lookup, struct error *err)
{
    const char *scope = request_argument(request, "scope");

    (void)lookup, (void)err;
    if (document_scope_pair(request, ACTION_RUNNER_READ, scope == NULL ? "" : scope) == NULL) response_unknown(request);
    return SUCCESS;
}

struct result target_runner_show(struct request *request, struct lookup *lookup, struct error *err)
{
    (void)lookup, (void)err;
    return document_target_named(request, ACTION_RUNNER_READ);
}

/* ---- the list ---- */

/* A row without the signature of the runner's key is not a draft, because others may have written it into the table; it is left out. */
static struct result append_draft(void *context, const struct drafted_document *drafted, struct error *err)
{
    const struct document_drafts *drafts = context;
    char owner[PRINCIPAL_KEY_SIZE], runner[UUID_TEXT_SIZE];
    struct error refused = {0};
    struct runner_key key;
    bool is_signed = false;
    json_t *value = NULL;

    if (drafted->document->is_withdrawn || !runner_key_read(drafted->document, &key, &refused).ok)
        return refused.kind == ERROR_NO_MEMORY ? failure(err, ERROR_NO_MEMORY, "%s", refused.message) : SUCCESS;
    TRY(document_is_signed_by(drafted->document, key.point, &is_signed, err));
    if (!is_signed) return SUCCESS;
    uuid_format(&key.runner, runner);
    (void)snprintf(owner, sizeof owner, "runner:%s", runner);
    TRY(document_describe(drafted->document, 0, &value, err));
    TRY(document_list_add(drafts->list, value, err));
    const struct document_holder holder = {key.point, owner, RUNNER_SIGNERS};
    return document_add_signatures(drafts, value, drafted, &holder, err);
}

static struct result append_invitation(void *context, const struct invitation_row *row, struct error *err)
{
    char runner[UUID_TEXT_SIZE];
    const char *state = row->used_ms != 0 ? "used" : row->expires_ms <= clock_wall_ms() ? "expired" : "open";

    uuid_format(&row->runner, runner);
    json_t *value = json_pack("{s:s, s:s, s:s, s:s*}", "runner", runner, "state", state, "invited_by", row->invited_by, "name",
                              row->name[0] == '\0' ? NULL : row->name);
    if (value == NULL || !api_set_time(value, "invited", row->invited_ms) || !api_set_time(value, "expires", row->expires_ms) ||
        !api_set_time(value, "used", row->used_ms)) {
        json_decref(value);
        return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    }
    return document_list_add(context, value, err);
}

static struct result add_waiting(struct request *request, struct pg *pg, const char *scope, json_t *value, struct error *err)
{
    const struct document_draft_query drafts_query = {ACTION_RUNNER_READ, DOCUMENT_RUNNER, scope, NULL};
    const struct invitation_query invited = {ACTION_RUNNER_READ, scope, NULL};
    struct document_drafts drafts = {.request = request, .list = json_object_get(value, "drafts")};

    TRY(document_trust_now(request, &drafts.trust, err));
    TRY(document_draft_visit(request->permit, pg, &drafts_query, append_draft, &drafts, err));
    return invitation_visit(request->permit, pg, &invited, append_invitation, json_object_get(value, "invitations"), err);
}

static struct result handle_list(struct request *request, struct pg *pg, struct error *err)
{
    const struct resource *where = permit_resource(request->permit, ACTION_RUNNER_READ);
    OWNED_JSON value = json_pack("{s:[], s:[], s:[]}", "runners", "drafts", "invitations");
    struct document_scope scope;
    struct api_page page;

    if (!api_page(request, &page)) return SUCCESS;
    if (value == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a list");
    TRY(document_refresh(request, pg, err));
    TRY(document_scope_find(lookup_of(pg), where->name, &scope, err));
    const struct view_range range = {DOCUMENT_RUNNER, &scope, page.after, page.limit + 1};
    TRY(document_view_visit(request->gateway->documents, &range, document_list_pinned, json_object_get(value, "runners"), err));
    if (page.after[0] == '\0') TRY(add_waiting(request, pg, where->name, value, err));
    return document_list_answer(request, value, "runners", page.limit, err);
}

/* ---- one runner ---- */

static struct result handle_show(struct request *request, struct pg *pg, struct error *err)
{
    OWNED_JSON value = NULL;

    TRY(document_show(request, pg, ACTION_RUNNER_READ, DOCUMENT_RUNNER, &value, err));
    return document_answer_shown(request, value, true, err);
}

const struct handler handler_runner_list = {.handle = handle_list};
const struct handler handler_runner_show = {.handle = handle_show};
