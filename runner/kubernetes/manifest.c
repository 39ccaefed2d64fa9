/*
 * What a job is made of (docs/kubernetes.md). One pod, three containers: `place` puts the first program of the payload into a volume and ends;
 * `agent` has the token of the pod, the payload does not. Both share the volumes and the network, no processes.
 */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "runner/kubernetes/kubernetes_priv.h"

#define WORD_MAX             1024
#define MANIFEST_MAX         65536
#define AGENT_USER           64001 /* other numbers for agent and payload: neither may send signals to the other, or open its files */
#define VOLUME_GROUP         64000
#define TTL_S                3600
#define AGENT_MEMORY         (INT64_C(128) << 20)                          /* and the inputs, which it writes to memory */
#define GATE_BYTES           (16 << 20)                                    /* the program, and a socket */
#define SHARED_BYTES         (64 << 20)                                    /* /dev/shm: a part of the payload's own memory */
#define TOKEN_S              600                                           /* the least that Kubernetes gives */
#define LABEL_REGION         "sijil.node-restriction.kubernetes.io/region" /* a kubelet may not give itself labels with this ending */
#define LABEL_JURISDICTION   "sijil.node-restriction.kubernetes.io/jurisdiction."
#define LOWER_AND_DIGITS     "abcdefghijklmnopqrstuvwxyz0123456789"
#define IMAGE_LETTERS        LOWER_AND_DIGITS "ABCDEFGHIJKLMNOPQRSTUVWXYZ._-/:@"
#define JURISDICTION_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-"

/* ---- Checks ---- */

static bool is_image(const char *image)
{
    const char *at = image == NULL ? NULL : strchr(image, '@');
    struct digest digest;
    struct error none;

    return at != NULL && at != image && at - image < 256 && text_consists_of(bytes_of_text(image), IMAGE_LETTERS) &&
           digest_parse(bytes_of_text(at + 1), &digest, &none).ok && digest.algorithm == DIGEST_SHA256;
}

/* "PROVIDER/NAME" becomes "PROVIDER.NAME": a provider has no full stop, so no two regions have one label. */
static bool label_of_region(const char *region, char label_out[KUBERNETES_NAME_SIZE])
{
    const struct bytes text = bytes_of_text(region);
    const char *slash = strchr(region, '/');

    if (slash == NULL || slash == region || text.length >= KUBERNETES_NAME_SIZE || strchr(slash + 1, '/') != NULL) return false;
    if (!text_consists_of((struct bytes){text.data, (size_t)(slash - region)}, LOWER_AND_DIGITS "-")) return false;
    if (!text_consists_of(bytes_of_text(slash + 1), LOWER_AND_DIGITS "-_.")) return false;
    if (strchr(LOWER_AND_DIGITS, region[0]) == NULL || strchr(LOWER_AND_DIGITS, region[text.length - 1]) == NULL) return false;
    (void)snprintf(label_out, KUBERNETES_NAME_SIZE, "%.*s.%s", (int)(slash - region), region, slash + 1);
    return true;
}

static bool is_jurisdiction(const char *jurisdiction)
{
    const struct bytes text = bytes_of_text(jurisdiction);

    return text.length > 0 && text.length <= 32 && text_consists_of(text, JURISDICTION_LETTERS) && jurisdiction[0] >= 'A' &&
           jurisdiction[text.length - 1] != '-';
}

/* "nvidia.com/gpu": a domain, a slash and a name. */
static bool is_device(const char *device)
{
    const struct bytes text = bytes_of_text(device);
    const char *slash = strchr(device, '/');

    return slash != NULL && slash != device && slash[1] != '\0' && strchr(slash + 1, '/') == NULL &&
           text.length < KUBERNETES_NAME_SIZE && text_consists_of(text, LOWER_AND_DIGITS "./-");
}

static struct result check_sizes(const struct kubernetes_job *job, struct error *err)
{
    const int64_t most = INT64_C(1) << 53;
    const struct {
        const char *name;
        int64_t value, least, most;
    } rows[] = {{"cpus", job->cpus, 1, 4096},
                {"memory_bytes", job->memory_bytes, 1 << 20, most},
                {"input_bytes", job->input_bytes, 4096, most},
                {"output_bytes", job->output_bytes, 4096, most},
                {"deadline_s", job->deadline_s, 1, 2 * 2592000},
                {"grace_s", job->grace_s, 0, 3600},
                {"ttl_s", job->ttl_s, 0, 604800},
                {"payload_user", job->payload_user, 0, INT32_MAX - 1},
                {"devices", job->devices, job->device == NULL ? 0 : 1, job->device == NULL ? 0 : 64}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].value < rows[i].least || rows[i].value > rows[i].most)
            return failure(err, ERROR_INVALID, "a job's %s is from %lld to %lld", rows[i].name, (long long)rows[i].least,
                           (long long)rows[i].most);
    return SUCCESS;
}

static struct result check_words(const struct kubernetes_job *job, struct error *err)
{
    if (job->word_count == 0 || job->word_count > KUBERNETES_WORDS_MAX || job->words[0][0] != '/')
        return failure(err, ERROR_INVALID, "an agent is a program by its whole path, with at most %d arguments",
                       KUBERNETES_WORDS_MAX - 1);
    for (size_t i = 0; i < job->word_count; i++) {
        const struct bytes word = bytes_of_text(job->words[i]);
        if (word.length > WORD_MAX || !text_is_visible(word))
            return failure(err, ERROR_INVALID, "argument %zu of an agent has more than %d bytes, or control characters", i,
                           WORD_MAX);
    }
    return SUCCESS;
}

static struct result check_job(const struct kubernetes_job *job, struct error *err)
{
    char label[KUBERNETES_NAME_SIZE];

    if (!is_image(job->agent_image) || !is_image(job->payload_image))
        return failure(err, ERROR_INVALID, "a job's images are HOST/REPOSITORY@sha256:DIGEST, without a tag");
    if (job->queue != NULL && !kubernetes_is_name(job->queue))
        return failure(err, ERROR_INVALID, "a queue has 1 to 63 of a-z, 0-9 and '-'");
    if (job->runner != NULL && !kubernetes_is_name(job->runner)) return failure(err, ERROR_INVALID, "a job's runner is a UUID");
    if (job->region != NULL && !label_of_region(job->region, label))
        return failure(err, ERROR_INVALID, "the region %.64s can't be the label of a node", job->region);
    if (job->jurisdiction_count > KUBERNETES_JURISDICTIONS_MAX)
        return failure(err, ERROR_INVALID, "a job has too many jurisdictions");
    for (size_t i = 0; i < job->jurisdiction_count; i++)
        if (!is_jurisdiction(job->jurisdictions[i]))
            return failure(err, ERROR_INVALID, "the jurisdiction %.32s can't be the label of a node", job->jurisdictions[i]);
    if (job->device != NULL && !is_device(job->device))
        return failure(err, ERROR_INVALID, "a job's device is named as nvidia.com/gpu");
    TRY(check_sizes(job, err));
    return check_words(job, err);
}

/* ---- Small parts ---- */

static json_t *quantity(int64_t number)
{
    return json_sprintf("%lld", (long long)number);
}

static json_t *volume_in_memory(const char *name, int64_t bytes)
{
    return json_pack("{s:s s:{s:s s:o}}", "name", name, "emptyDir", "medium", "Memory", "sizeLimit", quantity(bytes));
}

static json_t *mount(const char *name, const char *path, bool read_only)
{
    return json_pack("{s:s s:s s:b}", "name", name, "mountPath", path, "readOnly", read_only);
}

/* Pod Security "restricted", and more: a user of its own for each, and no file of the image can be changed. */
static json_t *security_of(int64_t user)
{
    return json_pack("{s:b s:b s:b s:I s:I s:{s:[s]} s:{s:s}}", "allowPrivilegeEscalation", 0, "readOnlyRootFilesystem", 1,
                     "runAsNonRoot", 1, "runAsUser", (json_int_t)user, "runAsGroup", (json_int_t)user, "capabilities", "drop",
                     "ALL", "seccompProfile", "type", "RuntimeDefault");
}

static json_t *resources_of(int64_t cpus, int64_t memory_bytes, const char *device, int64_t devices)
{
    json_t *limits =
        json_pack("{s:o s:o s:s}", "cpu", quantity(cpus), "memory", quantity(memory_bytes), "ephemeral-storage", "64Mi");

    if (device != NULL) (void)json_object_set_new(limits, device, quantity(devices));
    return json_pack("{s:O s:o}", "requests", limits, "limits", limits);
}

static json_t *resources_of_agent(int64_t memory_bytes)
{
    return json_pack("{s:{s:s s:o s:s} s:{s:s s:o s:s}}", "requests", "cpu", "100m", "memory", quantity(memory_bytes),
                     "ephemeral-storage", "64Mi", "limits", "cpu", "1", "memory", quantity(memory_bytes), "ephemeral-storage",
                     "64Mi");
}

/* Kubernetes puts variables of its own in the place of $(NAME), and takes $$ for $. */
static json_t *literal(const char *word)
{
    char text[2 * WORD_MAX + 1];
    size_t length = 0;

    for (; *word != '\0'; word++) {
        if (*word == '$') text[length++] = '$';
        text[length++] = *word;
    }
    return json_stringn(text, length);
}

static json_t *words_of(const struct kubernetes_job *job)
{
    json_t *words = json_array();

    for (size_t i = 0; i < job->word_count; i++) (void)json_array_append_new(words, literal(job->words[i]));
    return words;
}

/* ---- The pod ---- */

static json_t *volumes(const struct kubernetes_job *job)
{
    json_t *token =
        json_pack("{s:s s:{s:i s:[{s:{s:s s:i s:s}}]}}", "name", "token", "projected", "defaultMode", 0440, "sources",
                  "serviceAccountToken", "audience", KUBERNETES_AUDIENCE, "expirationSeconds", TOKEN_S, "path", "token");

    return json_pack("[o o o o o o o]", token, volume_in_memory("gate", GATE_BYTES), volume_in_memory("code", job->input_bytes),
                     volume_in_memory("in", job->input_bytes), volume_in_memory("out", job->output_bytes),
                     volume_in_memory("tmp", job->memory_bytes), volume_in_memory("shm", SHARED_BYTES));
}

static json_t *place_container(const struct kubernetes_job *job)
{
    return json_pack("{s:s s:s s:[s s s] s:[o] s:o s:o}", "name", "place", "image", job->agent_image, "command", "/sijil-pod",
                     "place", "/gate", "volumeMounts", mount("gate", "/gate", false), "securityContext", security_of(AGENT_USER),
                     "resources", resources_of_agent(AGENT_MEMORY));
}

static json_t *agent_container(const struct kubernetes_job *job)
{
    return json_pack("{s:s s:s s:o s:[o o o o o] s:o s:o}", "name", "agent", "image", job->agent_image, "command", words_of(job),
                     "volumeMounts", mount("gate", "/gate", false), mount("code", "/code", false), mount("in", "/in", false),
                     mount("out", "/out", true), mount("token", "/run/sijil", true), "securityContext", security_of(AGENT_USER),
                     "resources", resources_of_agent(AGENT_MEMORY + job->input_bytes));
}

static json_t *payload_container(const struct kubernetes_job *job)
{
    return json_pack("{s:s s:s s:s s:[s s s s* s*] s:[o o o o o o] s:o s:o}", "name", "payload", "terminationMessagePath",
                     "/gate/shut/word", "image", job->payload_image, "command", "/gate/sijil-pod", "payload", "/gate",
                     job->has_tasks ? "tasks" : NULL, job->device != NULL ? "devices" : NULL, "volumeMounts",
                     mount("gate", "/gate", true), mount("code", "/code", true), mount("in", "/in", true),
                     mount("out", "/out", false), mount("tmp", "/tmp", false), mount("shm", "/dev/shm", false), "securityContext",
                     security_of(job->payload_user == 0 ? KUBERNETES_PAYLOAD_USER : job->payload_user), "resources",
                     resources_of(job->cpus, job->memory_bytes, job->device, job->devices));
}

/* All conditions must hold for a node (one term). */
static json_t *affinity_of(const struct kubernetes_job *job)
{
    json_t *expressions = json_array();
    char label[KUBERNETES_NAME_SIZE];

    if (job->region != NULL && label_of_region(job->region, label))
        (void)json_array_append_new(expressions,
                                    json_pack("{s:s s:s s:[s]}", "key", LABEL_REGION, "operator", "In", "values", label));
    for (size_t i = 0; i < job->jurisdiction_count; i++)
        (void)json_array_append_new(expressions, json_pack("{s:s+ s:s s:[s]}", "key", LABEL_JURISDICTION, job->jurisdictions[i],
                                                           "operator", "In", "values", "true"));
    return json_pack("{s:{s:{s:[{s:o}]}}}", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms",
                     "matchExpressions", expressions);
}

/* No name is resolved in the pod: its resolver is its own loopback, where nobody listens. */
static json_t *pod_of(const struct kubernetes_job *job)
{
    json_t *pod =
        json_pack("{s:s s:b s:b s:b s:s s:s s:{s:[s]} s:I s:{s:b s:i s:{s:s}} s:o s:[o] s:[o o]}", "serviceAccountName",
                  KUBERNETES_ACCOUNT, "automountServiceAccountToken", 0, "enableServiceLinks", 0, "shareProcessNamespace", 0,
                  "restartPolicy", "Never", "dnsPolicy", "None", "dnsConfig", "nameservers", "127.0.0.1",
                  "terminationGracePeriodSeconds", (json_int_t)job->grace_s + 5, "securityContext", "runAsNonRoot", 1, "fsGroup",
                  VOLUME_GROUP, "seccompProfile", "type", "RuntimeDefault", "volumes", volumes(job), "initContainers",
                  place_container(job), "containers", agent_container(job), payload_container(job));

    if (job->region != NULL || job->jurisdiction_count > 0) (void)json_object_set_new(pod, "affinity", affinity_of(job));
    return pod;
}

/* ---- The job ---- */

static json_t *labels_of(const struct kubernetes_job *job, const char *name)
{
    json_t *labels = json_pack("{s:s s:s}", "app.kubernetes.io/managed-by", "sijil", "sijil/job", name);

    if (job->runner != NULL) (void)json_object_set_new(labels, KUBERNETES_RUNNER, json_string(job->runner));
    if (job->queue != NULL) (void)json_object_set_new(labels, "kueue.x-k8s.io/queue-name", json_string(job->queue));
    return labels;
}

static json_t *object_of(const struct kubernetes *kubernetes, const struct kubernetes_job *job, const char *name)
{
    json_t *template = json_pack("{s:{s:{s:s s:s}} s:o}", "metadata", "labels", "app.kubernetes.io/managed-by", "sijil",
                                 "sijil/job", name, "spec", pod_of(job));

    return json_pack("{s:s s:s s:{s:s s:s s:o} s:{s:i s:i s:i s:s s:I s:I s:b s:o}}", "apiVersion", "batch/v1", "kind", "Job",
                     "metadata", "name", name, "namespace", kubernetes->space, "labels", labels_of(job, name), "spec",
                     "backoffLimit", 0, "completions", 1, "parallelism", 1, "podReplacementPolicy", "Failed",
                     "activeDeadlineSeconds", (json_int_t)job->deadline_s, "ttlSecondsAfterFinished",
                     (json_int_t)(job->ttl_s == 0 ? TTL_S : job->ttl_s), "suspend", job->queue != NULL, "template", template);
}

struct result kubernetes_manifest(const struct kubernetes *kubernetes, const struct kubernetes_job *job, struct buffer *text,
                                  char digest_out[DIGEST_TEXT_SIZE], struct error *err)
{
    struct buffer OWNED_BUFFER bare = BUFFER(MANIFEST_MAX);
    const unsigned lacks = json_lacks();
    char name[KUBERNETES_NAME_SIZE];

    TRY(kubernetes_job_name(job, name, err));
    TRY(check_job(job, err));
    OWNED_JSON object = object_of(kubernetes, job, name);
    if (object == NULL || json_lacks() != lacks) return failure(err, ERROR_NO_MEMORY, "no memory for a job");
    TRY(json_write_canonical(&bare, object, err));
    const struct digest digest = digest_of(DIGEST_SHA256, buffer_bytes(&bare));
    digest_format(&digest, digest_out);
    if (json_object_set_new(json_object_get(object, "metadata"), "annotations",
                            json_pack("{s:s}", KUBERNETES_DIGEST, digest_out)) != 0)
        return failure(err, ERROR_NO_MEMORY, "no memory for a job");
    return json_write_canonical(text, object, err);
}
