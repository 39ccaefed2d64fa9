#include "cmd/sijil_runner_pods.h"

#include <stdio.h>

#define TEXT_MAX 65536

enum { EXIT_OPEN = 1 };

bool runner_pods_option(struct pods_options *settings, int option)
{
    switch (option) {
    case RUNNER_KUBERNETES: settings->cluster.url = optarg; return true;
    case RUNNER_KUBERNETES_TOKEN: settings->cluster.token_file = optarg; return true;
    case RUNNER_KUBERNETES_NAMESPACE: settings->cluster.space = optarg; return true;
    case RUNNER_KUBERNETES_IMAGE: settings->image = optarg; return true;
    case RUNNER_KUBERNETES_REGION: settings->region = optarg; return true;
    default: return false;
    }
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
