/* The label that a pushed manifest states of its content (docs/policies.md, "A manifest's own label"). */
#include "gateway/oci/manifest_label_priv.h"

#include <stdio.h>

#include "base/clock.h"
#include "gateway/oci/oci_priv.h"
#include "policy/decider/decider.h"

/* Who may label the repository answers for what others keep there. The token of a push can't name that right, so the roles of its owner count. */
static bool may_label(const struct request *request)
{
    const struct action_pair pair = {.action = ACTION_REPOSITORY_LABEL, .resource = *oci_where(request)};
    struct principal owner = *request->principal;

    owner.is_limited = false;
    return decider_rights(request->gateway->decider, &owner, &pair, clock_wall_ms()) == AUTHZ_ALLOWED;
}

static bool refuse(struct request *request, const struct carried_label *answer)
{
    char message[300];

    (void)snprintf(
        message, sizeof message,
        "the manifest states a label that %.120s can't take: rule %.64s. Push it to a project whose region may have such content",
        request->name, answer->rule);
    (void)oci_refuse(request, 403, "DENIED", message).ok;
    return false;
}

static struct result ask(struct request *request, struct manifest_push *push, struct manifest_labelling *labelling, bool *goes_on,
                         struct error *err)
{
    const struct carried_query query = {.output = request->name, .stated = push->manifest->label, .now_ms = clock_wall_ms()};
    struct carried_label answer = {.label = labelling->text};

    const struct result asked = decider_carried_label(request->gateway->decider, &query, &answer, err);
    labelling->text = answer.label;
    if (!asked.ok && err->kind == ERROR_LIMIT) { /* together with what the repository has */
        *goes_on = false;
        return oci_refuse(request, 403, "DENIED", err->message);
    }
    TRY(asked);
    if (answer.is_carried) return SUCCESS;
    if (!answer.is_allowed) {
        *goes_on = refuse(request, &answer);
        return SUCCESS;
    }
    labelling->label = (struct brought_label){.action = ACTION_MANIFEST_PUSH,
                                              .where = oci_where(request),
                                              .manifest = push->digest,
                                              .label = buffer_bytes(&labelling->text),
                                              .may_lock = may_label(request)};
    push->label = &labelling->label;
    return SUCCESS;
}

struct result manifest_labelling_find(struct request *request, struct manifest_push *push, struct manifest_labelling *labelling,
                                      bool *goes_on_out, struct error *err)
{
    *labelling = (struct manifest_labelling){.text = BUFFER(LABEL_ANNOTATION_MAX)};
    *goes_on_out = true;
    return push->manifest->label == NULL ? SUCCESS : ask(request, push, labelling, goes_on_out, err);
}

void manifest_labelling_done(struct manifest_labelling *labelling)
{
    buffer_done(&labelling->text);
}
