//! The knobs of the optimizer, the schedule of its learning rates, and clipping. They fold away with the rarer ones.

use nearfar::{Optimizer, Schedule};

use super::{Entry, Knob, OFF_ON};

/// Knobs of how the weights follow the gradient.
pub(crate) const LEARNING: [Knob; 20] = [
    Knob {
        key: "optimizer.name",
        label: "Optimizer",
        pml: "torch.optim.Adam, AdamW, SGD",
        help: "The rule by which the weights follow the gradient. Adam gives each weight a step of its own. AdamW is Adam whose weight decay stays out of the gradient. SGD goes along the gradient itself, and needs a learning rate ten times as high or more. Another optimizer starts from its own learning rate.",
        entry: Entry::Choice(&Optimizer::ALL),
    },
    Knob {
        key: "optimizer.momentum",
        label: "Momentum",
        pml: "torch.optim.SGD(momentum)",
        help: "The part of the steps before that each step keeps, such as 0.9. With 0 nothing is kept, and no memory is taken.",
        entry: Entry::Number("0.05"),
    },
    Knob {
        key: "optimizer.nesterov",
        label: "Nesterov",
        pml: "torch.optim.SGD(nesterov)",
        help: "Looks ahead by one step of the momentum, which has to be above 0.",
        entry: Entry::Choice(&OFF_ON),
    },
    Knob {
        key: "optimizer.betas",
        label: "Betas",
        pml: "torch.optim.Adam(betas)",
        help: "How much Adam keeps, from step to step, of the mean gradient and of the mean squared gradient: two numbers below 1 with a comma.",
        entry: Entry::Numbers,
    },
    Knob {
        key: "optimizer.eps",
        label: "Epsilon of Adam",
        pml: "torch.optim.Adam(eps)",
        help: "Added to the root of the mean squared gradient, so that weights with tiny gradients move little.",
        entry: Entry::Number("any"),
    },
    Knob {
        key: "optimizer.weight_decay",
        label: "Weight decay",
        pml: "torch.optim.Adam(weight_decay), AdamW(weight_decay)",
        help: "Pulls the weights to zero, so that a head with few rows does not learn them by heart. With Adam and SGD it is added to the gradient; with AdamW each step takes this part off, times the learning rate.",
        entry: Entry::Number("any"),
    },
    Knob {
        key: "clip_grad_norm",
        label: "Clip gradient",
        pml: "torch.nn.utils.clip_grad_norm_(max_norm)",
        help: "Shortens the gradient of all weights, and of proxies or a boundary, to this length where it is longer. 0 leaves it as it is. The numbers of a run show how long it is.",
        entry: Entry::Number("any"),
    },
    Knob {
        key: "schedule.name",
        label: "Schedule",
        pml: "torch.optim.lr_scheduler",
        help: "How the learning rates change along the steps. Cosine: down to the last step. One cycle: up to the learning rate, then down to nearly nothing. Linear warm-up: small first steps. Steps down: lower after every so many steps.",
        entry: Entry::Choice(&Schedule::ALL),
    },
    Knob {
        key: "schedule.eta_min",
        label: "Last rate",
        pml: "CosineAnnealingLR(eta_min)",
        help: "The learning rate at the end of the cosine.",
        entry: Entry::Number("any"),
    },
    Knob {
        key: "schedule.pct_start",
        label: "Rising part",
        pml: "OneCycleLR(pct_start)",
        help: "The part of the steps in which the rate rises.",
        entry: Entry::Number("0.05"),
    },
    Knob {
        key: "schedule.div_factor",
        label: "First rate: divided by",
        pml: "OneCycleLR(div_factor)",
        help: "The first rate is the learning rate divided by this.",
        entry: Entry::Number("any"),
    },
    Knob {
        key: "schedule.final_div_factor",
        label: "Last rate: divided by",
        pml: "OneCycleLR(final_div_factor)",
        help: "The last rate is the first one divided by this.",
        entry: Entry::Number("any"),
    },
    Knob {
        key: "schedule.cycle_momentum",
        label: "Cycle momentum",
        pml: "OneCycleLR(cycle_momentum)",
        help: "Lowers the momentum of SGD, or Adam's first beta, while the rate rises, and raises it while the rate falls. The optimizer's own is then not used.",
        entry: Entry::Choice(&OFF_ON),
    },
    Knob {
        key: "schedule.base_momentum",
        label: "Least momentum",
        pml: "OneCycleLR(base_momentum)",
        help: "The momentum at the highest rate, where it is cycled.",
        entry: Entry::Number("0.05"),
    },
    Knob {
        key: "schedule.max_momentum",
        label: "Most momentum",
        pml: "OneCycleLR(max_momentum)",
        help: "The momentum in the first and in the last step, where it is cycled.",
        entry: Entry::Number("0.05"),
    },
    Knob {
        key: "schedule.start_factor",
        label: "First factor",
        pml: "LinearLR(start_factor)",
        help: "The learning rate of the first step is multiplied by this.",
        entry: Entry::Number("any"),
    },
    Knob {
        key: "schedule.end_factor",
        label: "Last factor",
        pml: "LinearLR(end_factor)",
        help: "The learning rate after the warm-up is multiplied by this.",
        entry: Entry::Number("any"),
    },
    Knob {
        key: "schedule.total_iters",
        label: "Warm-up steps",
        pml: "LinearLR(total_iters)",
        help: "Steps from the first factor to the last.",
        entry: Entry::Number("1"),
    },
    Knob {
        key: "schedule.step_size",
        label: "Steps between changes",
        pml: "StepLR(step_size)",
        help: "The learning rate is lowered after every so many steps.",
        entry: Entry::Number("1"),
    },
    Knob {
        key: "schedule.gamma",
        label: "Factor of a change",
        pml: "StepLR(gamma)",
        help: "The learning rate is multiplied by this at each change.",
        entry: Entry::Number("0.1"),
    },
];
