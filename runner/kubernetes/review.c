/* TokenReview (authentication.k8s.io/v1): whose a token is, in the words of the cluster that issued it. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "runner/kubernetes/kubernetes_priv.h"

#define REVIEW_MAX    (KUBERNETES_TOKEN_MAX + 512)
#define TOKEN_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
#define EXTRA         "authentication.kubernetes.io/"

/* Exactly one text, equal to `wanted`. */
static bool is_only(const json_t *list, const char *wanted)
{
    const json_t *first = json_array_get(list, 0);

    return wanted != NULL && wanted[0] != '\0' && json_array_size(list) == 1 && json_is_string(first) &&
           strcmp(json_string_value(first), wanted) == 0;
}

/* Exactly one text, which is one of those that were enrolled. */
static bool is_enrolled(const json_t *said, const struct kubernetes_holder *holder)
{
    for (size_t i = 0; i < json_array_size(holder->node_uids); i++)
        if (is_only(said, json_string_value(json_array_get(holder->node_uids, i)))) return true;
    return holder->node_uids == NULL;
}

static struct result check_account(const json_t *user, const char *space, const char *account, struct error *err)
{
    const char *name = json_text_of(user, "username");
    char wanted[3 * KUBERNETES_NAME_SIZE];

    (void)snprintf(wanted, sizeof wanted, "system:serviceaccount:%s:%s", space, account);
    if (name != NULL && strcmp(name, wanted) == 0) return SUCCESS;
    return failure(err, ERROR_DENIED, "the token is not of the service account %.128s", wanted);
}

struct result kubernetes_read_review(const json_t *answer, const char *space, const struct kubernetes_holder *holder,
                                     struct error *err)
{
    const json_t *status = json_object_get(answer, "status"), *user = json_object_get(status, "user");
    const json_t *extra = json_object_get(user, "extra");

    if (!json_is_true(json_object_get(status, "authenticated")))
        return failure(err, ERROR_DENIED,
                       "the cluster does not accept the token: it is not its own, expired, or its pod is gone");
    if (!is_only(json_object_get(status, "audiences"), KUBERNETES_AUDIENCE))
        return failure(err, ERROR_DENIED, "the token is not for the audience " KUBERNETES_AUDIENCE " alone");
    TRY(check_account(user, space, holder->account, err));
    if (!is_only(json_object_get(extra, EXTRA "pod-uid"), holder->pod_uid))
        return failure(err, ERROR_DENIED, "the token is not of the pod that this runner started");
    if (json_object_get(extra, EXTRA "node-uid") == NULL)
        return failure(err, ERROR_DENIED, "the cluster does not say on which node the token's pod is (Kubernetes 1.32 does)");
    if (!is_enrolled(json_object_get(extra, EXTRA "node-uid"), holder))
        return failure(err, ERROR_DENIED, "the token's pod is not on the node that was enrolled");
    return SUCCESS;
}

/* The answer has the token, too. */
static void wipe_token(const json_t *answer)
{
    const json_t *token = json_object_get(json_object_get(answer, "spec"), "token");

    if (json_is_string(token)) explicit_bzero((void *)(uintptr_t)json_string_value(token), json_string_length(token));
}

static struct result write_review(struct buffer *body, struct bytes token, struct error *err)
{
    uint8_t *room = NULL;

    TRY(buffer_reserve(body, REVIEW_MAX, &room, err)); /* at once, so that no piece of the token is left in an older buffer */
    TRY(buffer_add_text(
        body,
        "{\"apiVersion\":\"authentication.k8s.io/v1\",\"kind\":\"TokenReview\",\"spec\":{\"audiences\":[\"" KUBERNETES_AUDIENCE
        "\"],\"token\":\"",
        err));
    TRY(buffer_add(body, token.data, token.length, err));
    return buffer_add_text(body, "\"}}", err);
}

struct result kubernetes_review(struct kubernetes *kubernetes, struct bytes token, const struct kubernetes_holder *holder,
                                struct error *err)
{
    struct buffer OWNED_BUFFER body = BUFFER(REVIEW_MAX);
    OWNED_JSON answer = NULL;

    if (token.length == 0 || token.length > KUBERNETES_TOKEN_MAX || !text_consists_of(token, TOKEN_LETTERS))
        return failure(err, ERROR_DENIED, "this is no token of a service account");
    struct result done = write_review(&body, token, err);
    if (done.ok)
        done =
            kubernetes_call(kubernetes, "POST", "/apis/authentication.k8s.io/v1/tokenreviews", buffer_bytes(&body), &answer, err);
    if (body.data != NULL) explicit_bzero(body.data, body.length);
    wipe_token(answer);
    if (!done.ok) {
        if (err->kind == ERROR_UNCERTAIN) err->kind = ERROR_UNAVAILABLE; /* a review changes nothing */
        return done;
    }
    return kubernetes_read_review(answer, kubernetes->space, holder, err);
}
