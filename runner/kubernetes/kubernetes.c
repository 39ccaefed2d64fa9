#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "base/uuid.h"
#include "runner/kubernetes/kubernetes_priv.h"

#define NAME_LETTERS  "abcdefghijklmnopqrstuvwxyz0123456789-"
#define ATTEMPTS_MAX  100
#define NODES_MAX     256
#define SECURITY      "pod-security.kubernetes.io/enforce"
#define SECURITY_TERM "the namespace does not enforce the Pod Security level restricted: label it " SECURITY "=restricted"
#define POLICY_TERM   "the NetworkPolicy " KUBERNETES_POLICY " does not forbid all connections of all pods of the namespace"

/* ---- Words ---- */

void kubernetes_copy_text(char *text_out, size_t size, const char *text)
{
    size_t length = 0;

    for (; text != NULL && text[length] != '\0' && length + 1 < size; length++)
        text_out[length] = text[length] >= ' ' && text[length] <= '~' ? text[length] : '?';
    text_out[length] = '\0';
}

bool kubernetes_is_name(const char *name)
{
    const struct bytes letters = bytes_of_text(name);

    return letters.length > 0 && letters.length < KUBERNETES_NAME_SIZE && text_consists_of(letters, NAME_LETTERS) &&
           name[0] != '-' && name[letters.length - 1] != '-';
}

const char *kubernetes_state_name(enum kubernetes_state state)
{
    static const char *const names[] = {
        [KUBERNETES_NONE] = "none",           [KUBERNETES_WAITING] = "waiting", [KUBERNETES_RUNNING] = "running",
        [KUBERNETES_COMPLETED] = "completed", [KUBERNETES_FAILED] = "failed",   [KUBERNETES_TIMEOUT] = "timeout",
        [KUBERNETES_MEMORY] = "memory",       [KUBERNETES_LOST] = "lost",       [KUBERNETES_ENDING] = "ending"};

    return names[state];
}

struct result kubernetes_job_name(const struct kubernetes_job *job, char name_out[KUBERNETES_NAME_SIZE], struct error *err)
{
    struct uuid run;

    if (!uuid_parse(bytes_of_text(job->run), &run)) return failure(err, ERROR_INVALID, "a job's run is a UUID");
    if (job->attempt < 1 || job->attempt > ATTEMPTS_MAX || job->node < 0 || job->node >= NODES_MAX)
        return failure(err, ERROR_INVALID, "a job's attempt is 1 to %d, its node 0 to %d", ATTEMPTS_MAX, NODES_MAX - 1);
    (void)snprintf(name_out, KUBERNETES_NAME_SIZE, "sijil-%s-%d-%d", job->run, job->attempt, job->node);
    return SUCCESS;
}

/* ---- Opening ---- */

static struct result take_text(char *into, size_t size, const char *what, const char *text, struct error *err)
{
    const int length = snprintf(into, size, "%s", text == NULL ? "" : text);

    if (length <= 0 || (size_t)length >= size) return failure(err, ERROR_INVALID, "%s has 1 to %zu letters", what, size - 1);
    return SUCCESS;
}

static struct result read_version(struct kubernetes *kubernetes, struct error *err)
{
    OWNED_JSON answer = NULL;

    TRY(kubernetes_call(kubernetes, "GET", "/version", (struct bytes){0}, &answer, err));
    kubernetes_copy_text(kubernetes->version, sizeof kubernetes->version, json_text_of(answer, "gitVersion"));
    if (kubernetes->version[0] != 'v')
        return failure(err, ERROR_INVALID, "%.160s does not answer as a Kubernetes API", kubernetes->origin);
    return SUCCESS;
}

struct result kubernetes_open(const struct kubernetes_options *options, struct kubernetes **kubernetes_out, struct error *err)
{
    OWNED(kubernetes) *kubernetes = memory_zeroed(1, sizeof *kubernetes);
    const struct outgoing_options rules = {.reach = OUTGOING_ANY, .ca_file = options->ca_file};

    if (kubernetes == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a cluster");
    kubernetes->gives_up = options->gives_up;
    TRY(take_text(kubernetes->origin, sizeof kubernetes->origin, "the URL of the Kubernetes API", options->url, err));
    TRY(take_text(kubernetes->token_file, sizeof kubernetes->token_file, "the path of the token for Kubernetes",
                  options->token_file, err));
    TRY(take_text(kubernetes->space, sizeof kubernetes->space, "the namespace", options->space, err));
    if (strncmp(kubernetes->origin, "https://", 8) != 0)
        return failure(err, ERROR_INVALID, "Kubernetes is reached at https://HOST:PORT");
    if (!kubernetes_is_name(kubernetes->space)) return failure(err, ERROR_INVALID, "a namespace has 1 to 63 of a-z, 0-9 and '-'");
    TRY(outgoing_new(&rules, &kubernetes->outgoing, err));
    TRY(read_version(kubernetes, err));
    *kubernetes_out = GIVE(kubernetes);
    return SUCCESS;
}

const char *kubernetes_version(const struct kubernetes *kubernetes)
{
    return kubernetes->version;
}

void kubernetes_free(struct kubernetes *kubernetes)
{
    if (kubernetes == NULL) return;
    outgoing_free(kubernetes->outgoing);
    free(kubernetes);
}

/* ---- The place ---- */

const char *kubernetes_lacks_security(const json_t *space)
{
    const char *level = json_text_of(json_object_get(json_object_get(space, "metadata"), "labels"), SECURITY);

    return level != NULL && strcmp(level, "restricted") == 0 ? NULL : SECURITY_TERM;
}

static bool has_type(const json_t *types, const char *wanted)
{
    const json_t *each;
    size_t i;

    json_array_foreach (types, i, each)
        if (json_is_string(each) && strcmp(json_string_value(each), wanted) == 0) return true;
    return false;
}

/* Any rule allows a connection. A selector without members selects all pods; a policy without a selector does not count. */
const char *kubernetes_lacks_policy(const json_t *policy)
{
    const json_t *spec = json_object_get(policy, "spec"), *selector = json_object_get(spec, "podSelector");
    const json_t *types = json_object_get(spec, "policyTypes");
    const json_t *rules[] = {json_object_get(spec, "ingress"), json_object_get(spec, "egress")};

    if (!json_is_object(selector) || json_object_size(selector) > 0) return POLICY_TERM;
    if (!has_type(types, "Ingress") || !has_type(types, "Egress")) return POLICY_TERM;
    for (size_t i = 0; i < 2; i++)
        if (rules[i] != NULL && (!json_is_array(rules[i]) || json_array_size(rules[i]) > 0)) return POLICY_TERM;
    return NULL;
}

struct result kubernetes_check_place(struct kubernetes *kubernetes, struct error *err)
{
    OWNED_JSON space = NULL;
    OWNED_JSON policy = NULL;
    char path[KUBERNETES_PATH_SIZE];

    (void)snprintf(path, sizeof path, "/api/v1/namespaces/%s", kubernetes->space);
    TRY(kubernetes_call(kubernetes, "GET", path, (struct bytes){0}, &space, err));
    const char *lacks = kubernetes_lacks_security(space);
    if (lacks != NULL) return failure(err, ERROR_DENIED, "%s", lacks);
    (void)snprintf(path, sizeof path, "/apis/networking.k8s.io/v1/namespaces/%s/networkpolicies/" KUBERNETES_POLICY,
                   kubernetes->space);
    if (!kubernetes_call(kubernetes, "GET", path, (struct bytes){0}, &policy, err).ok) {
        if (err->kind == ERROR_NOT_FOUND) return failure(err, ERROR_DENIED, "%s", POLICY_TERM);
        return (struct result){.ok = false};
    }
    lacks = kubernetes_lacks_policy(policy);
    return lacks == NULL ? SUCCESS : failure(err, ERROR_DENIED, "%s", lacks);
}
