//! The noise schedule of the diffusion prior and the respaced reverse transition (Eqs. 1-3).

use thiserror::Error as ThisError;

use crate::error::{ErrorDetail, ErrorKind, Result};

/// The forward process: `alpha_bar[t]` is the share of the clean field's variance left at timestep t (Eq. 1).
///
/// Timesteps are 0-based: 0 is nearly clean, `num_steps - 1` nearly pure noise.
#[derive(Debug, Clone, PartialEq)]
pub struct NoiseSchedule {
    beta: Vec<f64>,
    alpha_bar: Vec<f64>,
}

impl NoiseSchedule {
    /// `num_steps` values of beta, linear from `first` to `last`; the paper's DDPM is `linear(1e-4, 0.02, 1000)`.
    ///
    /// # Errors
    /// `InvalidInput` unless `0 < first <= last < 1` and there are at least two steps.
    pub fn linear(first: f64, last: f64, num_steps: usize) -> Result<Self> {
        if !(first > 0.0 && first <= last && last < 1.0) || num_steps < 2 {
            return Err(ScheduleError::Linear { first, last, num_steps }.into());
        }
        let slope = (last - first) / (num_steps - 1) as f64;
        let beta: Vec<f64> = (0..num_steps).map(|step| first + slope * step as f64).collect();
        let alpha_bar = beta
            .iter()
            .scan(1.0, |product, beta| {
                *product *= 1.0 - beta;
                Some(*product)
            })
            .collect();
        Ok(Self { beta, alpha_bar })
    }

    /// The schedule of the paper's prior: linear 1e-4 to 0.02 in 1000 steps.
    pub fn ddpm() -> Self {
        Self::linear(1e-4, 0.02, 1000).expect("the DDPM constants are in range")
    }

    /// Number of timesteps T.
    pub fn num_steps(&self) -> usize {
        self.beta.len()
    }

    /// beta_t, the variance added at timestep t.
    pub fn beta(&self, timestep: usize) -> f64 {
        self.beta[timestep]
    }

    /// alpha_bar_t = prod_{s <= t} (1 - beta_s).
    pub fn alpha_bar(&self, timestep: usize) -> f64 {
        self.alpha_bar[timestep]
    }

    /// `count` timesteps spread evenly from 0 to T - 1 (fractional spacing, rounded), in decreasing order.
    ///
    /// Five of 1000 are 999, 749, 500, 250, 0.
    ///
    /// # Errors
    /// `InvalidInput` unless `1 <= count <= T`. One step is T - 1 alone.
    pub fn spaced_timesteps(&self, count: usize) -> Result<Vec<usize>> {
        let top = self.num_steps() - 1;
        if count == 0 || count > self.num_steps() {
            return Err(ScheduleError::Count { count, num_steps: self.num_steps() }.into());
        }
        if count == 1 {
            return Ok(vec![top]);
        }
        let stride = top as f64 / (count - 1) as f64;
        // Ties to even, as numpy and torch round: 499.5 -> 500, 749.25 -> 749.
        Ok((0..count).rev().map(|index| (index as f64 * stride).round_ties_even() as usize).collect())
    }

    /// The reverse chain over a decreasing list of timesteps, ending in the clean field.
    ///
    /// # Errors
    /// `InvalidInput` if the list is empty, not strictly decreasing, or has a timestep >= T.
    pub fn respace(&self, timesteps: &[usize]) -> Result<Vec<ReverseStep>> {
        let decreasing = timesteps.windows(2).all(|pair| pair[0] > pair[1]);
        if timesteps.first().is_none_or(|&top| top >= self.num_steps()) || !decreasing {
            return Err(ScheduleError::Timesteps { timesteps: timesteps.to_vec(), num_steps: self.num_steps() }.into());
        }
        let next = timesteps[1..].iter().map(|&timestep| self.alpha_bar[timestep]).chain([1.0]);
        Ok(timesteps
            .iter()
            .zip(next)
            .map(|(&timestep, alpha_bar_next)| ReverseStep {
                timestep,
                alpha_bar: self.alpha_bar[timestep],
                coefficients: ReverseCoefficients::between(self.alpha_bar[timestep], alpha_bar_next),
            })
            .collect())
    }
}

/// One step of a respaced reverse chain.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReverseStep {
    /// The timestep the network is asked at.
    pub timestep: usize,
    /// alpha_bar at that timestep.
    pub alpha_bar: f64,
    /// The transition to the next, less noisy state.
    pub coefficients: ReverseCoefficients,
}

/// x_next = clean * x0 + noisy * x_t + sqrt(noise_variance) * eps (Eq. 3: a_t, b_t and beta_t tilde).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReverseCoefficients {
    /// a_t, the weight of the clean estimate.
    pub clean: f64,
    /// b_t, the weight of the noisy state.
    pub noisy: f64,
    /// The ancestral posterior variance; 0 in the last step.
    pub noise_variance: f64,
}

impl ReverseCoefficients {
    /// The transition from `alpha_bar` to the larger `alpha_bar_next`: moments of q(x_next | x_t, x_0).
    fn between(alpha_bar: f64, alpha_bar_next: f64) -> Self {
        let beta = 1.0 - alpha_bar / alpha_bar_next;
        let noise = 1.0 - alpha_bar;
        Self {
            clean: beta * alpha_bar_next.sqrt() / noise,
            noisy: (1.0 - alpha_bar_next) * (1.0 - beta).sqrt() / noise,
            noise_variance: beta * (1.0 - alpha_bar_next) / noise,
        }
    }
}

/// What a network outputs, and how the clean estimate follows from it (Eq. 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Parameterization {
    /// The injected noise eps.
    Noise,
    /// v = sqrt(alpha_bar) eps - sqrt(1 - alpha_bar) x0.
    Velocity,
    /// The clean field x0 itself.
    Clean,
}

impl Parameterization {
    /// The clean estimate of one value from the noisy value and the network's output at `alpha_bar`.
    pub fn clean_estimate(self, noisy: f64, output: f64, alpha_bar: f64) -> f64 {
        let (signal, noise) = (alpha_bar.sqrt(), (1.0 - alpha_bar).sqrt());
        match self {
            Self::Noise => (noisy - noise * output) / signal,
            Self::Velocity => signal * noisy - noise * output,
            Self::Clean => output,
        }
    }
}

#[derive(Debug, ThisError)]
enum ScheduleError {
    #[error("linear schedule {first}..{last} in {num_steps} steps: needs 0 < first <= last < 1 and at least 2 steps")]
    Linear { first: f64, last: f64, num_steps: usize },
    #[error("{count} reverse steps are not allowed: 1 to {num_steps}")]
    Count { count: usize, num_steps: usize },
    #[error("timesteps {timesteps:?} must be strictly decreasing and below {num_steps}")]
    Timesteps { timesteps: Vec<usize>, num_steps: usize },
}

impl ErrorDetail for ScheduleError {
    fn kind(&self) -> ErrorKind {
        ErrorKind::InvalidInput
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_spaced_timesteps_are_the_papers() {
        assert_eq!(NoiseSchedule::ddpm().spaced_timesteps(5).unwrap(), [999, 749, 500, 250, 0]);
    }

    #[test]
    fn ddpm_alpha_bar_matches_published_values() {
        let schedule = NoiseSchedule::ddpm();
        for (timestep, value, tolerance) in
            [(0, 0.9999, 1e-12), (250, 0.524, 5e-3), (500, 0.078, 1e-3), (999, 4.04e-5, 1e-7)]
        {
            assert!((schedule.alpha_bar(timestep) - value).abs() < tolerance, "{timestep}");
        }
    }

    #[test]
    fn theory_reverse_step_keeps_the_forward_marginal_eq1() {
        // If x_t is drawn from q(x_t | x_0), the transition must give the mean and variance of q(x_next | x_0).
        let schedule = NoiseSchedule::ddpm();
        let steps = schedule.respace(&[999, 749, 500, 250, 0]).unwrap();
        for pair in steps.windows(2) {
            let ReverseCoefficients { clean, noisy, noise_variance } = pair[0].coefficients;
            let mean = clean + noisy * pair[0].alpha_bar.sqrt();
            let variance = noisy * noisy * (1.0 - pair[0].alpha_bar) + noise_variance;
            assert!((mean - pair[1].alpha_bar.sqrt()).abs() < 1e-14);
            assert!((variance - (1.0 - pair[1].alpha_bar)).abs() < 1e-14);
        }
    }

    #[test]
    fn last_step_returns_the_clean_estimate_without_noise() {
        let steps = NoiseSchedule::ddpm().respace(&[999, 0]).unwrap();
        let last = steps[1].coefficients;
        assert!((last.clean - 1.0).abs() < 1e-12);
        assert_eq!((last.noisy, last.noise_variance), (0.0, 0.0));
    }

    #[test]
    fn every_parameterization_recovers_the_clean_value() {
        let (clean, eps, alpha_bar) = (0.3, -1.2, 0.4f64);
        let noisy = alpha_bar.sqrt() * clean + (1.0 - alpha_bar).sqrt() * eps;
        let velocity = alpha_bar.sqrt() * eps - (1.0 - alpha_bar).sqrt() * clean;
        for (parameterization, output) in
            [(Parameterization::Noise, eps), (Parameterization::Velocity, velocity), (Parameterization::Clean, clean)]
        {
            let estimate = parameterization.clean_estimate(noisy, output, alpha_bar);
            assert!((estimate - clean).abs() < 1e-15, "{parameterization:?}");
        }
    }

    #[test]
    fn respace_refuses_lists_that_do_not_decrease() {
        let schedule = NoiseSchedule::ddpm();
        for timesteps in [&[][..], &[0, 1], &[5, 5], &[1000, 0]] {
            assert_eq!(schedule.respace(timesteps).unwrap_err().kind(), ErrorKind::InvalidInput);
        }
    }
}
