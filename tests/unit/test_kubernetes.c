/* What a job is made of, and what a cluster's words mean: jobs, pods, reviews, places. */
#include "tests/support/unit.h"

#include <stdio.h>

#include "runner/kubernetes/kubernetes_priv.h"

#define RUN    "01234567-89ab-4def-8123-456789abcdef"
#define DIGEST "@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static json_t *parse(const char *text)
{
    json_t *value = NULL;
    struct error err = {0};

    if (!json_read_any_number(bytes_of_text(text), KUBERNETES_ANSWER_MAX, &value, &err).ok) fail_msg("%s: %s", text, err.message);
    return value;
}

/* ---- states ---- */
#define JOB(status) "{\"kind\":\"Job\",\"metadata\":{\"uid\":\"j\"},\"spec\":{},\"status\":" status "}"
#define FAILED(why) JOB("{\"conditions\":[{\"type\":\"Failed\",\"status\":\"True\",\"reason\":\"" why "\"}]}")
#define POD_OF(owner, status)                                                                          \
    "{\"items\":[{\"metadata\":{\"uid\":\"p\",\"ownerReferences\":[{\"kind\":\"Job\",\"uid\":\"" owner \
    "\"}]},\"spec\":{\"nodeName\":\"n\"},\"status\":" status "}]}"
#define POD(status)      POD_OF("j", status)
#define PAYLOAD(state)   "\"containerStatuses\":[{\"name\":\"agent\",\"state\":{}},{\"name\":\"payload\",\"state\":" state "}]"
#define ENDED(code, why) PAYLOAD("{\"terminated\":{\"exitCode\":" code ",\"reason\":\"" why "\"}}")

static const struct status_row {
    const char *name, *job, *pods;
    enum kubernetes_state state;
    int exit, signal;
    const char *reason;
} statuses[] = {
    {"nothing", NULL, "{\"items\":[]}", KUBERNETES_NONE, 0, 0, ""},
    {"a pod is left", NULL, POD("{}"), KUBERNETES_ENDING, 0, 0, ""},
    {"just made", JOB("{}"), NULL, KUBERNETES_WAITING, 0, 0, ""},
    {"suspended", "{\"kind\":\"Job\",\"metadata\":{\"uid\":\"j\"},\"spec\":{\"suspend\":true}}", NULL, KUBERNETES_WAITING, 0, 0,
     "Suspended"},
    {"runs", JOB("{\"active\":1}"), POD("{\"phase\":\"Running\"," PAYLOAD("{\"running\":{}}") "}"), KUBERNETES_RUNNING, 0, 0, ""},
    {"no image", JOB("{\"active\":1}"),
     POD("{\"phase\":\"Pending\"," PAYLOAD("{\"waiting\":{\"reason\":\"ImagePullBackOff\"}}") "}"), KUBERNETES_WAITING, 0, 0,
     "ImagePullBackOff"},
    {"no node", JOB("{\"active\":1}"),
     POD("{\"phase\":\"Pending\",\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"False\",\"reason\":\"Unschedulable\"}]}"),
     KUBERNETES_WAITING, 0, 0, "Unschedulable"},
    {"complete", JOB("{\"conditions\":[{\"type\":\"Complete\",\"status\":\"True\"}]}"), POD("{" ENDED("0", "Completed") "}"),
     KUBERNETES_COMPLETED, 0, 0, "Completed"},
    {"complete is not true", JOB("{\"conditions\":[{\"type\":\"Complete\",\"status\":\"False\"}]}"), NULL, KUBERNETES_WAITING, 0,
     0, ""},
    {"exit code", FAILED("BackoffLimitExceeded"), POD("{" ENDED("7", "Error") "}"), KUBERNETES_FAILED, 7, 0, "Error"},
    {"signal", FAILED("BackoffLimitExceeded"), POD("{" ENDED("139", "Error") "}"), KUBERNETES_FAILED, 139, 11, "Error"},
    {"out of memory", FAILED("BackoffLimitExceeded"), POD("{" ENDED("137", "OOMKilled") "}"), KUBERNETES_MEMORY, 137, 9,
     "OOMKilled"},
    {"deadline", FAILED("DeadlineExceeded"), POD("{}"), KUBERNETES_TIMEOUT, 0, 0, "DeadlineExceeded"},
    {"its pod was deleted", FAILED("BackoffLimitExceeded"), "{\"items\":[]}", KUBERNETES_LOST, 0, 0, ""},
    {"evicted", FAILED("BackoffLimitExceeded"), POD("{\"reason\":\"Evicted\"," ENDED("137", "Error") "}"), KUBERNETES_LOST, 137,
     9, "Evicted"},
    {"preempted", FAILED("BackoffLimitExceeded"),
     POD("{\"conditions\":[{\"type\":\"DisruptionTarget\",\"status\":\"True\",\"reason\":\"PreemptionByScheduler\"}]," ENDED(
         "143", "Error") "}"),
     KUBERNETES_LOST, 143, 15, "PreemptionByScheduler"},
    {"its node is lost", FAILED("BackoffLimitExceeded"), POD("{" ENDED("137", "ContainerStatusUnknown") "}"), KUBERNETES_LOST,
     137, 9, "ContainerStatusUnknown"},
    {"another job's pod", FAILED("BackoffLimitExceeded"), POD_OF("k", "{" ENDED("0", "Completed") "}"), KUBERNETES_LOST, 0, 0,
     ""},
    {"the payload has no end", FAILED("BackoffLimitExceeded"), POD("{" PAYLOAD("{\"running\":{}}") "}"), KUBERNETES_LOST, 0, 0,
     ""},
    {"its pod gets TERM", JOB("{}"), POD_OF("j\"}],\"deletionTimestamp\":[{\"a\":\"b", "{}"), KUBERNETES_ENDING, 0, 0, "Deleted"},
    {"is deleted", "{\"kind\":\"Job\",\"metadata\":{\"uid\":\"j\",\"deletionTimestamp\":\"x\"},\"status\":{\"active\":1}}", NULL,
     KUBERNETES_ENDING, 0, 0, ""},
    {"an exit code that is none", FAILED("BackoffLimitExceeded"), POD("{" ENDED("1e400", "Error") "}"), KUBERNETES_FAILED, 255, 0,
     "Error"},
    {"a negative one", FAILED("BackoffLimitExceeded"), POD("{" ENDED("-1", "Error") "}"), KUBERNETES_FAILED, 255, 0, "Error"},
    {"a large one", FAILED("BackoffLimitExceeded"), POD("{" ENDED("99999999999999999999", "Error") "}"), KUBERNETES_FAILED, 255,
     0, "Error"},
    {"words that steer", FAILED("BackoffLimitExceeded"), POD("{" ENDED("1", "\\u001b[2J") "}"), KUBERNETES_FAILED, 1, 0, "?[2J"},
};

static void check_status(void **state)
{
    const struct status_row *row = *state;
    OWNED_JSON job = row->job == NULL ? NULL : parse(row->job);
    OWNED_JSON pods = row->pods == NULL ? NULL : parse(row->pods);
    struct kubernetes_status status;
    struct error err = {0};

    if (!kubernetes_read_status(job, pods, &status, &err).ok) fail_msg("%s", err.message);
    assert_string_equal(kubernetes_state_name(status.state), kubernetes_state_name(row->state));
    assert_int_equal(status.exit, row->exit);
    assert_int_equal(status.signal, row->signal);
    assert_string_equal(status.reason, row->reason);
}

static void what_is_no_job_is_refused(void **state)
{
    static const char *const texts[] = {"{}", "[]", "{\"kind\":\"Job\"}", "{\"kind\":\"Pod\",\"metadata\":{\"uid\":\"j\"}}",
                                        "{\"kind\":\"Job\",\"metadata\":{\"uid\":1}}"};
    struct kubernetes_status status = {.state = KUBERNETES_LOST};
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        OWNED_JSON value = parse(texts[i]);
        assert_false(kubernetes_read_status(value, NULL, &status, &err).ok);
        assert_false(kubernetes_read_status(NULL, value, &status, &err).ok);
    }
    assert_int_equal(status.state, KUBERNETES_LOST);
}

/* ---- reviews ---- */

#define REVIEW(authenticated, audiences, username, extra)                                                             \
    "{\"status\":{\"authenticated\":" authenticated ",\"audiences\":" audiences ",\"user\":{\"username\":\"" username \
    "\",\"extra\":{" extra "}}}}"
#define POD_UID(uids)  "\"authentication.kubernetes.io/pod-uid\":" uids
#define NODE_UID(uids) ",\"authentication.kubernetes.io/node-uid\":" uids
#define ACCOUNT        "system:serviceaccount:sijil-runs:sijil-run"
#define BOTH           POD_UID("[\"p\"]") NODE_UID("[\"n\"]")

static const struct review_row {
    const char *name, *text, *says; /* of the refusal; NULL: it counts */
} reviews[] = {
    {"as it must be", REVIEW("true", "[\"sijil\"]", ACCOUNT, BOTH), NULL},
    {"not authenticated", REVIEW("false", "[\"sijil\"]", ACCOUNT, BOTH), "does not accept"},
    {"a text for true", REVIEW("\"true\"", "[\"sijil\"]", ACCOUNT, BOTH), "does not accept"},
    {"no status", "{}", "does not accept"},
    {"no audience", REVIEW("true", "[]", ACCOUNT, BOTH), "audience"},
    {"another audience", REVIEW("true", "[\"api\"]", ACCOUNT, BOTH), "audience"},
    {"a further audience", REVIEW("true", "[\"sijil\",\"api\"]", ACCOUNT, BOTH), "audience"},
    {"another account", REVIEW("true", "[\"sijil\"]", "system:serviceaccount:sijil-runs:default", BOTH), "account"},
    {"another namespace", REVIEW("true", "[\"sijil\"]", "system:serviceaccount:other:sijil-run", BOTH), "account"},
    {"a person", REVIEW("true", "[\"sijil\"]", "admin", BOTH), "account"},
    {"no pod", REVIEW("true", "[\"sijil\"]", ACCOUNT, "\"a\":[]" NODE_UID("[\"n\"]")), "pod"},
    {"another pod", REVIEW("true", "[\"sijil\"]", ACCOUNT, POD_UID("[\"q\"]") NODE_UID("[\"n\"]")), "pod"},
    {"two pods", REVIEW("true", "[\"sijil\"]", ACCOUNT, POD_UID("[\"p\",\"q\"]") NODE_UID("[\"n\"]")), "pod"},
    {"the node is not said", REVIEW("true", "[\"sijil\"]", ACCOUNT, POD_UID("[\"p\"]")), "1.32"},
    {"another node", REVIEW("true", "[\"sijil\"]", ACCOUNT, POD_UID("[\"p\"]") NODE_UID("[\"m\"]")), "node"},
    {"a node that is a number", REVIEW("true", "[\"sijil\"]", ACCOUNT, POD_UID("[\"p\"]") NODE_UID("[1]")), "node"},
};

static void check_review(void **state)
{
    const struct review_row *row = *state;
    OWNED_JSON answer = parse(row->text), *nodes = parse("[\"n\"]");
    const struct kubernetes_holder holder = {.account = "sijil-run", .pod_uid = "p", .node_uids = nodes};
    struct error err = {0};

    const bool counts = kubernetes_read_review(answer, "sijil-runs", &holder, &err).ok;
    if (counts != (row->says == NULL)) fail_msg("%s", counts ? "it counts" : err.message);
    if (counts) return;
    assert_int_equal(err.kind, ERROR_DENIED);
    assert_non_null(strstr(err.message, row->says));
}

/* A pod that is not known yet, or a node that was not enrolled, is nobody's. */
static void nobody_has_a_token(void **state)
{
    OWNED_JSON answer = parse(REVIEW("true", "[\"sijil\"]", ACCOUNT, POD_UID("[\"\"]") NODE_UID("[\"\"]")));
    OWNED_JSON nodes = parse("[\"\"]");
    const struct kubernetes_holder holders[] = {{"sijil-run", "", nodes}, {"sijil-run", NULL, NULL}};
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < 2; i++) assert_false(kubernetes_read_review(answer, "sijil-runs", &holders[i], &err).ok);
}

/* One of several nodes that were enrolled; or any node, where none was (the last). */
static void a_token_is_of_an_enrolled_node(void **state)
{
    static const char *const lists[] = {"[\"m\",\"n\"]", "[\"m\",\"o\"]", "[]", NULL};
    OWNED_JSON answer = parse(REVIEW("true", "[\"sijil\"]", ACCOUNT, BOTH));
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < COUNT(lists); i++) {
        OWNED_JSON nodes = lists[i] == NULL ? NULL : parse(lists[i]);
        const struct kubernetes_holder holder = {.account = "sijil-run", .pod_uid = "p", .node_uids = nodes};
        assert_int_equal(kubernetes_read_review(answer, "sijil-runs", &holder, &err).ok, i == 0 || i == 3);
    }
}

/* ---- places ---- */
static const struct place_row {
    const char *name, *text;
    bool is_policy, is_good;
} places[] = {
    {"restricted", "{\"metadata\":{\"labels\":{\"pod-security.kubernetes.io/enforce\":\"restricted\"}}}", false, true},
    {"baseline", "{\"metadata\":{\"labels\":{\"pod-security.kubernetes.io/enforce\":\"baseline\"}}}", false, false},
    {"only a warning", "{\"metadata\":{\"labels\":{\"pod-security.kubernetes.io/warn\":\"restricted\"}}}", false, false},
    {"no labels", "{}", false, false},
    {"all is forbidden", "{\"spec\":{\"podSelector\":{},\"policyTypes\":[\"Ingress\",\"Egress\"]}}", true, true},
    {"empty rules", "{\"spec\":{\"podSelector\":{},\"policyTypes\":[\"Egress\",\"Ingress\"],\"ingress\":[],\"egress\":[]}}", true,
     true},
    {"some pods", "{\"spec\":{\"podSelector\":{\"matchLabels\":{\"a\":\"b\"}},\"policyTypes\":[\"Ingress\",\"Egress\"]}}", true,
     false},
    {"in only", "{\"spec\":{\"podSelector\":{},\"policyTypes\":[\"Ingress\"]}}", true, false},
    {"a way out", "{\"spec\":{\"podSelector\":{},\"policyTypes\":[\"Ingress\",\"Egress\"],\"egress\":[{}]}}", true, false},
    {"rules that are no list", "{\"spec\":{\"podSelector\":{},\"policyTypes\":[\"Ingress\",\"Egress\"],\"egress\":{}}}", true,
     false},
    {"no selector", "{\"spec\":{\"policyTypes\":[\"Ingress\",\"Egress\"]}}", true, false},
    {"nothing", "{}", true, false},
};

static void check_place(void **state)
{
    const struct place_row *row = *state;
    OWNED_JSON answer = parse(row->text);
    const char *lacks = row->is_policy ? kubernetes_lacks_policy(answer) : kubernetes_lacks_security(answer);

    assert_int_equal(lacks == NULL, row->is_good);
}

/* ---- what a job is made of ---- */

static struct kubernetes_job good_job(void)
{
    return (struct kubernetes_job){.run = RUN,
                                   .attempt = 2,
                                   .node = 3,
                                   .agent_image = "registry.example/sijil/agent" DIGEST,
                                   .payload_image = "registry.example/acme/train" DIGEST,
                                   .queue = "gpus",
                                   .region = "local/dxb",
                                   .jurisdiction_count = 2,
                                   .jurisdictions = {"AE", "AE-DU"},
                                   .cpus = 4,
                                   .memory_bytes = INT64_C(8) << 30,
                                   .input_bytes = 1 << 30,
                                   .output_bytes = 1 << 20,
                                   .deadline_s = 7200,
                                   .grace_s = 30,
                                   .device = "nvidia.com/mig-1g.5gb",
                                   .devices = 2,
                                   .word_count = 2,
                                   .words = {"/sijil-pod", "$(HOME) $$"}};
}

static const struct kubernetes cluster = {.space = "sijil-runs"};

static json_t *made(const struct kubernetes_job *job, char digest[DIGEST_TEXT_SIZE])
{
    struct buffer OWNED_BUFFER text = BUFFER(65536);
    struct error err = {0};

    if (!kubernetes_manifest(&cluster, job, &text, digest, &err).ok) fail_msg("%s", err.message);
    return parse(buffer_text(&text));
}

/* Pod Security "restricted" and what it does not demand, for each container. */
static void check_container(const json_t *container)
{
    const json_t *security = json_object_get(container, "securityContext");
    int64_t user = 0;

    assert_non_null(strstr(json_text_of(container, "image"), "@sha256:"));
    assert_true(json_is_false(json_object_get(security, "allowPrivilegeEscalation")));
    assert_true(json_is_true(json_object_get(security, "readOnlyRootFilesystem")));
    assert_true(json_is_true(json_object_get(security, "runAsNonRoot")));
    assert_true(json_integer_of(security, "runAsUser", &user) && user > 60000);
    assert_string_equal(json_text_of(json_object_get(security, "seccompProfile"), "type"), "RuntimeDefault");
    assert_string_equal(json_string_value(json_array_get(json_object_get(json_object_get(security, "capabilities"), "drop"), 0)),
                        "ALL");
    assert_null(json_object_get(security, "privileged"));
    assert_null(json_object_get(container, "env"));
}

static bool mounts(const json_t *container, const char *name)
{
    const json_t *each;
    size_t i;

    json_array_foreach (json_object_get(container, "volumeMounts"), i, each)
        if (strcmp(json_text_of(each, "name"), name) == 0) return true;
    return false;
}

static void a_pod_is_confined(void **state)
{
    const struct kubernetes_job job = good_job();
    char digest[DIGEST_TEXT_SIZE];
    OWNED_JSON object = made(&job, digest);
    const json_t *spec = json_object_get(object, "spec"), *pod = json_object_get(json_object_get(spec, "template"), "spec");
    const json_t *agent = json_array_get(json_object_get(pod, "containers"), 0);
    const json_t *payload = json_array_get(json_object_get(pod, "containers"), 1);
    static const char *const shared[] = {"hostNetwork", "hostPID", "hostIPC", "hostUsers"};

    (void)state;
    check_container(json_array_get(json_object_get(pod, "initContainers"), 0));
    check_container(agent);
    check_container(payload);
    assert_true(json_is_false(json_object_get(pod, "automountServiceAccountToken")));
    assert_true(json_is_false(json_object_get(pod, "shareProcessNamespace")));
    for (size_t i = 0; i < sizeof shared / sizeof shared[0]; i++) assert_null(json_object_get(pod, shared[i]));
    assert_true(mounts(agent, "token") && !mounts(payload, "token"));
    assert_true(json_integer_value(json_object_get(json_object_get(agent, "securityContext"), "runAsUser")) !=
                json_integer_value(json_object_get(json_object_get(payload, "securityContext"), "runAsUser")));
    assert_string_equal(json_text_of(pod, "serviceAccountName"), "sijil-run");
    assert_string_equal(json_text_of(pod, "restartPolicy"), "Never");
}

static void a_job_is_for_one_attempt(void **state)
{
    struct kubernetes_job job = good_job();
    char digest[DIGEST_TEXT_SIZE], other[DIGEST_TEXT_SIZE];
    OWNED_JSON object = made(&job, digest);
    const json_t *spec = json_object_get(object, "spec"), *meta = json_object_get(object, "metadata");

    (void)state;
    assert_string_equal(json_text_of(meta, "name"), "sijil-" RUN "-2-3");
    assert_string_equal(json_text_of(json_object_get(meta, "labels"), "kueue.x-k8s.io/queue-name"), "gpus");
    assert_true(json_is_true(json_object_get(spec, "suspend")));
    assert_int_equal(json_integer_value(json_object_get(spec, "backoffLimit")), 0);
    assert_int_equal(json_integer_value(json_object_get(spec, "activeDeadlineSeconds")), 7200);
    assert_true(json_integer_value(json_object_get(spec, "ttlSecondsAfterFinished")) > 0);
    assert_true(kubernetes_is_made_of(object, digest));
    job.cpus++;
    OWNED_JSON changed = made(&job, other);
    assert_true(strcmp(digest, other) != 0 && !kubernetes_is_made_of(object, other));
    job.queue = NULL;
    OWNED_JSON unqueued = made(&job, other);
    assert_true(json_is_false(json_object_get(json_object_get(unqueued, "spec"), "suspend")));
}

static void a_node_must_have_its_labels(void **state)
{
    const struct kubernetes_job job = good_job();
    struct buffer OWNED_BUFFER text = BUFFER(65536);
    char digest[DIGEST_TEXT_SIZE];
    struct error err = {0};

    (void)state;
    assert_true(kubernetes_manifest(&cluster, &job, &text, digest, &err).ok);
    static const char *const parts[] = {
        "\"requiredDuringSchedulingIgnoredDuringExecution\":{\"nodeSelectorTerms\":[{\"matchExpressions\":[",
        "{\"key\":\"sijil.node-restriction.kubernetes.io/region\",\"operator\":\"In\",\"values\":[\"local.dxb\"]}",
        "{\"key\":\"sijil.node-restriction.kubernetes.io/jurisdiction.AE\",\"operator\":\"In\",\"values\":[\"true\"]}",
        "{\"key\":\"sijil.node-restriction.kubernetes.io/jurisdiction.AE-DU\",\"operator\":\"In\",\"values\":[\"true\"]}",
        "\"nvidia.com/mig-1g.5gb\":\"2\"",
        "\"memory\":\"8589934592\"",
        "\"audience\":\"sijil\"",
        "\"command\":[\"/sijil-pod\",\"$$(HOME) $$$$\"]"};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (strstr(buffer_text(&text), parts[i]) == NULL) fail_msg("%s is not in %s", parts[i], buffer_text(&text));
}

#define SPOILS(label, statement)                  \
    static void label(struct kubernetes_job *job) \
    {                                             \
        statement;                                \
    }
SPOILS(no_uuid, job->run = "../../x")
SPOILS(no_attempt, job->attempt = 0)
SPOILS(far_node, job->node = 256)
SPOILS(a_tag, job->payload_image = "registry.example/acme/train:latest")
SPOILS(a_short_digest, job->agent_image = "registry.example/a@sha256:01")
SPOILS(no_image, job->agent_image = NULL)
SPOILS(a_steering_image, job->agent_image = "a b" DIGEST)
SPOILS(a_queue, job->queue = "-x")
SPOILS(a_region, job->region = "local")
SPOILS(a_deep_region, job->region = "a/b/c")
SPOILS(a_dotted_provider, job->region = "a.b/c")
SPOILS(a_jurisdiction, job->jurisdictions[1] = "ae")
SPOILS(a_jurisdiction_with_a_dash, job->jurisdictions[1] = "AE-")
SPOILS(no_cpus, job->cpus = 0)
SPOILS(no_memory, job->memory_bytes = 0)
SPOILS(much_memory, job->memory_bytes = INT64_MAX)
SPOILS(no_deadline, job->deadline_s = 0)
SPOILS(no_devices, job->devices = 0)
SPOILS(devices_of_nothing, job->device = NULL)
SPOILS(a_device, job->device = "gpu")
SPOILS(no_words, job->word_count = 0)
SPOILS(a_relative_word, job->words[0] = "sijil-pod")
SPOILS(a_line, job->words[1] = "a\nb")

#define ROW(label)    \
    {                 \
#label, label \
    }
static const struct refused_row {
    const char *name;
    void (*spoil)(struct kubernetes_job *job);
} refused[] = {
    ROW(no_uuid),
    ROW(no_attempt),
    ROW(far_node),
    ROW(a_tag),
    ROW(a_short_digest),
    ROW(no_image),
    ROW(a_steering_image),
    ROW(a_queue),
    ROW(a_region),
    ROW(a_deep_region),
    ROW(a_dotted_provider),
    ROW(a_jurisdiction),
    ROW(a_jurisdiction_with_a_dash),
    ROW(no_cpus),
    ROW(no_memory),
    ROW(much_memory),
    ROW(no_deadline),
    ROW(no_devices),
    ROW(devices_of_nothing),
    ROW(a_device),
    ROW(no_words),
    ROW(a_relative_word),
    ROW(a_line),
};

static void check_refused(void **state)
{
    const struct refused_row *row = *state;
    struct kubernetes_job job = good_job();
    struct buffer OWNED_BUFFER text = BUFFER(65536);
    char digest[DIGEST_TEXT_SIZE];
    struct error err = {0};

    row->spoil(&job);
    assert_false(kubernetes_manifest(&cluster, &job, &text, digest, &err).ok);
    assert_int_equal(err.kind, ERROR_INVALID);
    assert_int_equal(text.length, 0);
}

static struct result make(void *context, struct error *err)
{
    const struct kubernetes_job job = good_job();
    struct buffer OWNED_BUFFER text = BUFFER(65536);
    char digest[DIGEST_TEXT_SIZE];

    (void)context;
    return kubernetes_manifest(&cluster, &job, &text, digest, err);
}

static void no_memory_makes_no_smaller_job(void **state)
{
    (void)state;
    fail_each(make, NULL, ERROR_NO_MEMORY, 100);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_job_is_refused),      cmocka_unit_test(nobody_has_a_token),
        cmocka_unit_test(a_token_is_of_an_enrolled_node), cmocka_unit_test(a_pod_is_confined),
        cmocka_unit_test(a_job_is_for_one_attempt),       cmocka_unit_test(a_node_must_have_its_labels),
        cmocka_unit_test(no_memory_makes_no_smaller_job)};

    return RUN_TABLE(statuses, check_status) + RUN_TABLE(reviews, check_review) + RUN_TABLE(places, check_place) +
           RUN_TABLE(refused, check_refused) + cmocka_run_group_tests(tests, NULL, NULL);
}
