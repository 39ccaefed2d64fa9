#include "cmd/sijil_runner_pods.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define TEXT_MAX     65536
#define PATIENCE_MAX 604800

enum { EXIT_OPEN = 1 };

/* "10.0.0.1:7443", "[fd00::1]:7443" */
static const char *take_listen(struct runner_pods *settings)
{
    static const char wrong[] = "--kubernetes-listen needs ADDRESS:PORT, such as 10.0.0.1:7443";
    const char *colon = strrchr(optarg, ':');
    const size_t brackets = optarg[0] == '[' ? 1 : 0;
    uint64_t port = 0;

    if (colon == NULL || !text_to_u64(bytes_of_text(colon + 1), 65535 - ATTEND_PORTS_MAX, &port) || port == 0) return wrong;
    const size_t length = (size_t)(colon - optarg);
    if (length <= 2 * brackets || length - 2 * brackets >= sizeof settings->listen || (brackets == 1 && colon[-1] != ']'))
        return wrong;
    memcpy(settings->listen, optarg + brackets, length - 2 * brackets);
    settings->listen[length - 2 * brackets] = '\0';
    settings->place.port = (unsigned)port;
    return NULL;
}

static const char *take_patience(struct runner_pods *settings)
{
    uint64_t seconds = 0;

    if (!text_to_u64(bytes_of_text(optarg), PATIENCE_MAX, &seconds) || seconds == 0)
        return "--kubernetes-patience is a number of seconds, from 1 to 604800";
    settings->place.patience_ms = (int64_t)seconds * 1000;
    return NULL;
}

static const char *take_serve_option(struct runner_pods *settings, int option, bool *is_known_out)
{
    const bool had = settings->has_serve_option;

    *is_known_out = settings->has_serve_option = true;
    switch (option) {
    case RUNNER_KUBERNETES_PAYLOAD: settings->place.payload_image = optarg; return NULL;
    case RUNNER_KUBERNETES_LISTEN: return take_listen(settings);
    case RUNNER_KUBERNETES_ADDRESS: settings->place.address = optarg; return NULL;
    case RUNNER_KUBERNETES_QUEUE: settings->place.queue = optarg; return NULL;
    case RUNNER_KUBERNETES_DEVICE: return declared_add(&settings->place.devices, optarg);
    case RUNNER_KUBERNETES_PATIENCE: return take_patience(settings);
    default:
        *is_known_out = false;
        settings->has_serve_option = had;
        return NULL;
    }
}

const char *runner_pods_option(struct runner_pods *settings, int option, bool *is_known_out)
{
    struct pods_options *check = &settings->check;
    const bool had = settings->has_check_option;

    *is_known_out = settings->has_check_option = true;
    switch (option) {
    case RUNNER_KUBERNETES: check->cluster.url = optarg; return NULL;
    case RUNNER_KUBERNETES_TOKEN: check->cluster.token_file = optarg; return NULL;
    case RUNNER_KUBERNETES_NAMESPACE: check->cluster.space = optarg; return NULL;
    case RUNNER_KUBERNETES_IMAGE: check->image = optarg; return NULL;
    case RUNNER_KUBERNETES_REGION: check->region = optarg; return NULL;
    default: settings->has_check_option = had; return take_serve_option(settings, option, is_known_out);
    }
}

const char *runner_pods_place(struct runner_pods *settings, uint64_t parallel)
{
    struct attend_place *place = &settings->place;

    if (settings->check.cluster.url == NULL || settings->check.cluster.token_file == NULL)
        return "pods need --kubernetes and --kubernetes-token";
    if (settings->check.image == NULL || settings->place.payload_image == NULL)
        return "serve --kubernetes needs --kubernetes-image, with sijil-pod, and --kubernetes-payload, for runs without an image";
    if (settings->listen[0] == '\0') return "serve --kubernetes needs --kubernetes-listen: agents of pods call this machine";
    if (settings->check.region != NULL) return "--kubernetes-region is for check: runs begin in the region that was enrolled";
    place->cluster = settings->check.cluster;
    place->agent_image = settings->check.image;
    place->listen = settings->listen;
    if (place->address == NULL) place->address = settings->listen;
    place->ports = (unsigned)parallel;
    return NULL;
}

int runner_pods_check(const struct pods_options *settings, bool json)
{
    struct buffer OWNED_BUFFER text = BUFFER(TEXT_MAX);
    struct error err = {0};

    if ((json ? pods_json : pods_text)(settings, &text, &err).ok && fputs(buffer_text(&text), stdout) >= 0 && fflush(stdout) == 0)
        return 0;
    (void)fprintf(stderr, "sijil-runner: %s\n", err.message);
    return EXIT_OPEN;
}
